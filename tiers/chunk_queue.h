/// A ChunkQueue moves chunks, the units of disk I/O, whole: it continues short
/// transfers, repeats what was only interrupted, and gives every error a name, a place
/// and a reason. One table of rules for all backends (docs/nvme.md).
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/io_queue.h"

namespace strata {

struct Chunk {
  IoOp op = IoOp::kRead;
  int file = 0;
  int64_t offset = 0;           // in the file; multiple of kAlignment
  std::byte* memory = nullptr;  // writes only read it
  int64_t size_bytes = 0;       // multiple of kAlignment, up to kSizeMax
  uint64_t tag = 0;             // the caller's
  absl::string_view name;       // whose bytes these are, for error messages
};

struct ChunkResult {
  uint64_t tag = 0;
  absl::Status status;  // OK: every byte was moved
};

struct ChunkCounters {
  int64_t bytes_read = 0;  // as the drive saw them, repeats included
  int64_t bytes_written = 0;
  int64_t short_count = 0;  // transfers that the kernel cut short
  int64_t retry_count = 0;  // attempts after EINTR, EAGAIN or a device error
};

/// Used by one thread, the queue's, except Wake(). Allocates only for errors.
class ChunkQueue {
 public:
  static constexpr int64_t kAlignment = 4096;
  static constexpr int64_t kSizeMax = int64_t{1}
                                      << 30;  // the kernel's is just under 2^31

  /// `paths` are those of the queue's files.
  ChunkQueue(std::unique_ptr<IoQueue> queue, std::vector<std::string> paths);

  int depth() const { return queue_->depth(); }
  int in_flight_count() const { return in_flight_count_; }

  /// REQUIRES: fewer than depth() in flight. `memory` stays valid until the result.
  void Start(const Chunk& chunk);

  /// Like IoQueue::Reap, of whole chunks.
  int Reap(std::span<ChunkResult> results, std::chrono::milliseconds wait);
  void Wake() { queue_->Wake(); }
  /// As the queue's. REQUIRES: nothing is in flight.
  void RegisterMemory(std::span<const std::span<std::byte>> memory) {
    queue_->RegisterMemory(memory);
  }
  std::string description() const { return queue_->description(); }

  const ChunkCounters& counters() const { return counters_; }

  /// The queue itself; this object is of no use after. REQUIRES: nothing is in flight.
  std::unique_ptr<IoQueue> TakeQueue();

 private:
  struct Slot {
    Chunk chunk;
    int64_t done_bytes = 0;
    int retry_count = 0;         // since the last progress
    int device_error_count = 0;  // in all
    bool in_use = false;
  };

  void Submit(int index);
  /// OK with `finished` set, OK without (another attempt is on its way), or the error.
  absl::Status Advance(int index, int64_t result, bool* finished);
  absl::Status Retry(int index, int error_number);
  std::string Describe(const Slot& slot) const;
  absl::Status Error(const Slot& slot, int error_number) const;

  std::unique_ptr<IoQueue> queue_;
  const std::vector<std::string> paths_;
  std::vector<Slot> slots_;
  std::vector<int> free_slots_;
  std::vector<IoOutcome> outcomes_;
  int in_flight_count_ = 0;
  ChunkCounters counters_;
};

}  // namespace strata
