/// An IoQueue hands reads and writes of files to the kernel and collects the outcomes.
/// It is the seam under everything that touches a drive: io_uring, libaio and a pool of
/// threads implement it, and tests decorate it to inject faults.
///
/// An outcome is one attempt's, as the kernel gave it: possibly short, possibly EINTR
/// or EAGAIN. ChunkQueue, above, turns attempts into whole transfers or errors.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace strata {

enum class IoOp : uint8_t { kRead, kWrite };
constexpr const char* Name(IoOp op) { return op == IoOp::kRead ? "read" : "write"; }

struct IoAttempt {
  IoOp op = IoOp::kRead;
  int file = 0;  // index into IoQueueOptions::files
  int64_t offset = 0;
  std::byte* memory = nullptr;  // writes only read it
  int64_t size_bytes = 0;
  uint64_t tag = 0;  // comes back with the outcome; below kReservedTag
  int retry_count = 0;
};

struct IoOutcome {
  uint64_t tag = 0;
  int64_t result = 0;  // bytes moved, or a negative errno
};

/// Created, used and destroyed by one thread, except Wake().
class IoQueue {
 public:
  static constexpr uint64_t kReservedTag = UINT64_MAX;

  /// REQUIRES: nothing is in flight; the kernel would go on writing to memory.
  virtual ~IoQueue() = default;

  /// Attempts that may be in flight at once.
  virtual int depth() const = 0;

  /// Starts an attempt, at the latest in the next Reap().
  /// REQUIRES: fewer than depth() in flight. `memory` stays valid until the outcome.
  virtual void Submit(const IoAttempt& attempt) = 0;

  /// Collects outcomes, in any order, and returns how many. Waits up to `wait` for the
  /// first one; returns early, possibly with none, after Wake() or a signal.
  virtual int Reap(std::span<IoOutcome> outcomes, std::chrono::milliseconds wait) = 0;

  /// Memory that most transfers will use, in place of IoQueueOptions::memory; a backend
  /// that can register it does. REQUIRES: nothing is in flight.
  virtual void RegisterMemory(std::span<const std::span<std::byte>> memory) {
    static_cast<void>(memory);
  }

  /// Ends the present Reap(), or the next one if none waits. Any thread may call it.
  virtual void Wake() = 0;

  /// What this queue got from the kernel and what it did without, for reports:
  /// "registered files, no registered memory: ...".
  virtual std::string description() const = 0;
};

struct IoFile {
  int descriptor = -1;  // borrowed; outlives the queue
  std::string path;     // for error messages
};

struct IoQueueOptions {
  int depth = 64;
  std::vector<IoFile> files;
  /// Memory that most transfers use; a backend that can register it does. Outlives the
  /// queue.
  std::vector<std::span<std::byte>> memory;
};

/// Each answers with the reason when this machine does not offer it.
absl::StatusOr<std::unique_ptr<IoQueue>> MakeUringQueue(const IoQueueOptions& options);
absl::StatusOr<std::unique_ptr<IoQueue>> MakeAioQueue(const IoQueueOptions& options);
absl::StatusOr<std::unique_ptr<IoQueue>> MakeThreadQueue(const IoQueueOptions& options);

}  // namespace strata
