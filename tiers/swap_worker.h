/// A SwapWorker is the I/O thread of one directory. It makes the swap file, owns the
/// ring and the descriptors, cuts requests into chunks, keeps a window of them in
/// flight, and checks what comes back against the checksum of what was written.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"
#include "tiers/bounded_ring.h"
#include "tiers/checksum_table.h"
#include "tiers/chunk_queue.h"
#include "tiers/io_queue.h"
#include "tiers/io_queue_probe.h"
#include "tiers/request_lane.h"
#include "tiers/stripe_map.h"
#include "tiers/swap_file.h"

namespace strata {

/// Puts something between the store and the kernel, such as a test's faults.
using QueueDecorator =
    std::function<std::unique_ptr<IoQueue>(std::unique_ptr<IoQueue> queue)>;

struct SwapWorkerOptions {
  int directory = 0;               // which of the map's
  std::string directory_path;      // the run's own
  const StripeMap* map = nullptr;  // outlives the worker
  int64_t extent_count_max = 0;
  int64_t window_bytes = 0;
  int request_count_max = 0;  // of both lanes together
  std::vector<std::span<std::byte>> memory;
  IoBackend io_backend = IoBackend::kAuto;
  QueueDecorator decorate_queue;  // or null
  std::chrono::milliseconds stall_limit;
  /// Called by the I/O thread for each request when this directory's part of it is
  /// done.
  std::function<void(StoreRequest*)> on_finished;
  /// Called by the I/O thread when a chunk is in flight for longer than stall_limit.
  std::function<void(absl::Status)> on_stalled;
};

class SwapWorker {
 public:
  /// Returns when the file is there and its queue works, or with the reason why not.
  static absl::StatusOr<std::unique_ptr<SwapWorker>> Start(SwapWorkerOptions options);

  /// REQUIRES: every request is finished.
  ~SwapWorker();

  /// Hands over a request that touches this directory.
  void Push(StoreRequest* request);

  /// The I/O thread registers `memory` with the kernel, in place of what it had, and
  /// AwaitRegistration() returns once it has. REQUIRES: every request is finished.
  void BeginRegistration(std::span<const std::span<std::byte>> memory);
  void AwaitRegistration();

  int64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }
  int64_t bytes_written() const {
    return bytes_written_.load(std::memory_order_relaxed);
  }
  /// Chunks whose first read was wrong and whose second was right.
  int64_t reread_count() const { return reread_count_.load(std::memory_order_relaxed); }
  std::string description();

 private:
  using Clock = std::chrono::steady_clock;

  /// A chunk in flight.
  struct Flight {
    StoreRequest* request = nullptr;
    ChecksumTable::Entry* entry = nullptr;  // writes
    int64_t offset = 0;                     // in the store
    Chunk chunk;
    uint32_t checksum = 0;  // of what is written, or what a read must give
    uint32_t generation = 0;
    bool is_second_read = false;
    Clock::time_point start;
  };
  /// The requests of one lane, oldest first; the front one is being cut into chunks.
  struct Lane {
    explicit Lane(int request_count_max) : requests(request_count_max) {}
    BoundedRing<StoreRequest*> requests;
    int64_t cursor = 0;  // in the front request: bytes already cut
    int64_t in_flight_bytes = 0;
    bool stall_reported = false;
  };

  explicit SwapWorker(SwapWorkerOptions options);

  void Run();
  absl::Status SetUp();
  bool TakeRequests();  // false: stop
  void RegisterMemory();
  std::string Describe() const;
  std::chrono::milliseconds ChooseWait();
  void Dispatch();
  Lane* ChooseLane();
  void DispatchNext(Lane& lane);
  void Launch(StoreRequest* request, int64_t offset, const StripeMap::Place& place,
              int64_t size_bytes);
  absl::Status Prepare(Flight& flight);
  void Reap(std::chrono::milliseconds wait);
  void Land(const ChunkResult& result);
  /// Checks the oldest chunk that was read, if there is one. The drive is busy with
  /// others meanwhile: a chunk leaves the window when it lands, not when it is checked.
  void CheckOldest();
  void Finish(int index);
  /// False if the chunk must be read again.
  bool Verify(Flight& flight);
  void FinishIfDone(StoreRequest* request);
  void ReportStalls();
  Lane& lane(IoOp op) { return op == IoOp::kRead ? reads_ : writes_; }

  const SwapWorkerOptions options_;

  Mutex mutex_;
  CondVar set_up_;
  std::optional<absl::Status> set_up_status_ STRATA_GUARDED_BY(mutex_);
  BoundedRing<StoreRequest*> inbox_ STRATA_GUARDED_BY(mutex_);
  bool sleeping_ STRATA_GUARDED_BY(mutex_) = false;  // or about to
  bool stopping_ STRATA_GUARDED_BY(mutex_) = false;
  CondVar registered_;
  /// Present until the I/O thread has registered it.
  std::optional<std::vector<std::span<std::byte>>> new_memory_
      STRATA_GUARDED_BY(mutex_);
  std::string description_ STRATA_GUARDED_BY(mutex_);

  // The I/O thread's own, once it runs.
  SwapFile file_;
  std::string why_backend_;
  std::unique_ptr<ChunkQueue> queue_;
  ChecksumTable checksums_;
  Lane reads_;
  Lane writes_;
  std::vector<Flight> flights_;
  std::vector<int> free_flights_;
  BoundedRing<int> unchecked_;  // flights that were read, oldest first
  std::vector<ChunkResult> results_;
  std::vector<int> chunks_out_;  // of each request, by index
  std::vector<bool> is_cut_;     // whether all chunks of a request have been launched

  std::atomic<int64_t> bytes_read_ = 0;
  std::atomic<int64_t> bytes_written_ = 0;
  std::atomic<int64_t> reread_count_ = 0;
  std::thread thread_;
};

}  // namespace strata
