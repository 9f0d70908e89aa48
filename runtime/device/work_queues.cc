#include "runtime/device/work_queues.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/base/status.h"

namespace strata {
namespace {

// The error of the first awaited work that failed; OK while none has.
absl::Status AwaitedError(const Work& work) {
  for (int i = 0; i < work.wait_count; ++i) {
    const Work::Wait& wait = work.waits[i];
    if (wait.queue->completed < wait.ticket && wait.queue->failed) {
      return wait.queue->error;
    }
  }
  return absl::OkStatus();
}

absl::Status Execute(const Work& work, Stream& stream) {
  if (work.task.run != nullptr) {
    return work.task.run(work.task.context, work.task.index, stream);
  }
  std::memmove(work.target, work.source, static_cast<size_t>(work.size_bytes));
  return absl::OkStatus();
}

}  // namespace

void Work::AddWait(WorkQueue& queue, Ticket ticket) {
  for (int i = 0; i < wait_count; ++i) {
    if (waits[i].queue != &queue) continue;
    waits[i].ticket = std::max(waits[i].ticket, ticket);
    return;
  }
  STRATA_CHECK(wait_count < kWaitCountMax);
  waits[wait_count++] = {&queue, ticket};
}

WorkQueue& WorkQueues::Open(Stream& stream, int32_t depth) {
  STRATA_CHECK(depth > 0);
  MutexLock lock(mutex_);
  queues_.push_back(std::make_unique<WorkQueue>(stream, depth));
  return *queues_.back();
}

void WorkQueues::Close(WorkQueue& queue) {
  MutexLock lock(mutex_);
  AwaitRetired(queue, queue.submitted);
  queue.open = false;
  queue.ring = {};
  queue.ready.NotifyOne();
}

Ticket WorkQueues::Submit(WorkQueue& queue, const Work& work) {
  MutexLock lock(mutex_);
  STRATA_CHECK(queue.open);
  for (int i = 0; i < work.wait_count; ++i) {
    STRATA_CHECK(work.waits[i].ticket <= work.waits[i].queue->submitted);
  }
  const Ticket ticket = queue.submitted + 1;
  if (ticket > queue.ring.size()) AwaitRetired(queue, ticket - queue.ring.size());
  queue.At(ticket) = work;
  queue.submitted = ticket;
  if (IsRunnable(queue)) queue.ready.NotifyOne();
  return ticket;
}

absl::StatusOr<Ticket> WorkQueues::Completed(const WorkQueue& queue) {
  if (queue.failed) return queue.error;
  return queue.completed.load();
}

absl::Status WorkQueues::Synchronize(WorkQueue& queue) {
  MutexLock lock(mutex_);
  AwaitRetired(queue, queue.submitted);
  return queue.error;
}

void WorkQueues::Serve(WorkQueue& queue) {
  MutexLock lock(mutex_);
  while (true) {
    while (queue.open && !IsRunnable(queue)) queue.ready.Wait(mutex_);
    if (!queue.open) return;
    RunOldest(queue);
  }
}

std::vector<WorkQueue*> WorkQueues::Runnable() {
  MutexLock lock(mutex_);
  std::vector<WorkQueue*> runnable;
  for (const auto& queue : queues_) {
    if (IsRunnable(*queue)) runnable.push_back(queue.get());
  }
  return runnable;
}

void WorkQueues::RunOne(WorkQueue& queue) {
  MutexLock lock(mutex_);
  STRATA_CHECK(mode_ == Mode::kManual && IsRunnable(queue));
  RunOldest(queue);
}

bool WorkQueues::IsRunnable(WorkQueue& queue) {
  if (queue.retired == queue.submitted) return false;
  if (queue.failed) return true;  // to be dropped
  const Work& work = queue.At(queue.retired + 1);
  return std::all_of(work.waits.begin(), work.waits.begin() + work.wait_count,
                     [](const Work::Wait& wait) {
                       return wait.queue->completed >= wait.ticket ||
                              wait.queue->failed;
                     });
}

void WorkQueues::AwaitRetired(WorkQueue& queue, Ticket ticket) {
  while (queue.retired < ticket) {
    if (mode_ == Mode::kThreads) {
      retired_.Wait(mutex_);
      continue;
    }
    const auto runnable =
        std::find_if(queues_.begin(), queues_.end(),
                     [](const auto& other) { return IsRunnable(*other); });
    STRATA_CHECK(runnable != queues_.end());  // waits point backwards: never a deadlock
    RunOldest(**runnable);
  }
}

void WorkQueues::RunOldest(WorkQueue& queue) {
  const Work& work = queue.At(queue.retired + 1);  // stays in place until it is retired
  if (queue.failed) {
    Retire(queue, absl::OkStatus());
    return;
  }
  absl::Status status = AwaitedError(work);
  if (status.ok()) {
    mutex_.Unlock();
    status = Execute(work, queue.stream);
    mutex_.Lock();
  }
  Retire(queue, std::move(status));
}

void WorkQueues::Retire(WorkQueue& queue, absl::Status status) {
  ++queue.retired;
  if (!status.ok()) {
    queue.error = std::move(status);
    queue.failed = true;
  } else if (!queue.failed) {
    queue.completed = queue.retired;
  }
  retired_.NotifyAll();
  for (const auto& other : queues_) {
    if (IsRunnable(*other)) other->ready.NotifyOne();
  }
}

}  // namespace strata
