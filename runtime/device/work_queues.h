/// The queues of work behind the streams of a CpuDevice, and who may go on: one mutex
/// for all queues of a device, because work of one waits for work of another.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/device/device.h"

namespace strata {

struct WorkQueue;

/// One piece of work and what it waits for. Plain data, so that queues are
/// preallocated.
struct Work {
  static constexpr int kWaitCountMax = 16;  // distinct queues that it waits for
  struct Wait {
    WorkQueue* queue;  // not owned
    Ticket ticket;
  };

  Task task;  // a copy if task.run is null
  std::byte* target = nullptr;
  const std::byte* source = nullptr;
  int64_t size_bytes = 0;
  std::array<Wait, kWaitCountMax> waits;
  int wait_count = 0;

  /// Keeps the latest ticket of each queue.
  void AddWait(WorkQueue& queue, Ticket ticket);
};

/// First in, first out. Only `completed` and `failed` are read without the mutex.
struct WorkQueue {
  WorkQueue(Stream& of_stream, int32_t depth)
      : stream(of_stream), ring(static_cast<size_t>(depth)) {}

  Stream& stream;          // not owned
  std::vector<Work> ring;  // work of ticket t is at t % depth
  Ticket submitted = 0;
  Ticket retired = 0;  // done or, after a failure, dropped
  bool open = true;
  CondVar ready;  // the oldest work may run now, or the queue was closed
  absl::Status error;
  std::atomic<Ticket> completed = 0;
  std::atomic<bool> failed = false;  // set once, after `error`

  Work& At(Ticket ticket) { return ring[ticket % ring.size()]; }
};

/// Thread-safe; each queue is submitted to and closed by one thread at a time.
class WorkQueues {
 public:
  enum class Mode : uint8_t {
    kThreads,  // each queue has a worker in Serve()
    kManual,   // work happens in RunOne(), and whoever blocks does it instead
  };
  explicit WorkQueues(Mode mode) : mode_(mode) {}

  /// The queue stays, small, until this object is destroyed: others may refer to it.
  WorkQueue& Open(Stream& stream, int32_t depth);
  /// Completes what is pending. No submission follows; Serve() returns.
  void Close(WorkQueue& queue);

  /// Blocks while the queue is full. REQUIRES: what `work` waits for was submitted.
  Ticket Submit(WorkQueue& queue, const Work& work);
  static absl::StatusOr<Ticket> Completed(const WorkQueue& queue);
  absl::Status Synchronize(WorkQueue& queue);

  /// A worker's life: does the queue's work until the queue is closed.
  void Serve(WorkQueue& queue);

  /// Queues whose oldest work may run now, in the order in which they were opened.
  std::vector<WorkQueue*> Runnable();
  /// Does the oldest work of `queue`. REQUIRES: it is runnable.
  void RunOne(WorkQueue& queue);

 private:
  static bool IsRunnable(WorkQueue& queue);
  /// Returns once `queue` has retired `ticket`.
  void AwaitRetired(WorkQueue& queue, Ticket ticket) STRATA_REQUIRES(mutex_);
  /// Unlocks while the work runs.
  void RunOldest(WorkQueue& queue) STRATA_REQUIRES(mutex_);
  void Retire(WorkQueue& queue, absl::Status status) STRATA_REQUIRES(mutex_);

  const Mode mode_;
  Mutex mutex_;
  CondVar retired_;  // some queue has retired work
  std::vector<std::unique_ptr<WorkQueue>> queues_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata
