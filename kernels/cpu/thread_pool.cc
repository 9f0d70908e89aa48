#include "kernels/cpu/thread_pool.h"

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

constexpr int kCallersMax = 16;  // more only cost an allocation

}  // namespace

ThreadPool::ThreadPool(int threads) {
  STRATA_CHECK(threads >= 1 && threads <= kThreadsMax);
  {
    MutexLock lock(mutex_);
    jobs_.reserve(kCallersMax);
  }
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(mutex_);
    STRATA_CHECK(jobs_.empty());
    stopping_ = true;
  }
  work_arrived_.NotifyAll();
  for (std::thread& worker : workers_) worker.join();
}

int64_t ThreadPool::TakePart(Job& job) {
  const int64_t part = job.started++;
  if (job.started == job.parts)
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
  return part;
}

void ThreadPool::Work() {
  mutex_.Lock();
  while (true) {
    while (!stopping_ && jobs_.empty()) work_arrived_.Wait(mutex_);
    if (stopping_) break;
    Job& job = *jobs_.front();
    const int64_t part = TakePart(job);
    mutex_.Unlock();
    job.body(part);
    mutex_.Lock();
    // The caller may return, and the job die, as soon as the lock is free again.
    if (++job.finished == job.parts) work_finished_.NotifyAll();
  }
  mutex_.Unlock();
}

void ThreadPool::Run(int64_t parts, absl::FunctionRef<void(int64_t)> body) {
  if (workers_.empty() || parts <= 1) {
    for (int64_t part = 0; part < parts; ++part) body(part);
    return;
  }
  Job job{body, parts};
  mutex_.Lock();
  jobs_.push_back(&job);
  work_arrived_.NotifyAll();
  while (job.started < job.parts) {
    const int64_t part = TakePart(job);
    mutex_.Unlock();
    body(part);
    mutex_.Lock();
    ++job.finished;
  }
  while (job.finished < job.parts) work_finished_.Wait(mutex_);
  mutex_.Unlock();
}

void ThreadPool::RunRanges(int64_t count, int64_t grain,
                           absl::FunctionRef<void(int64_t, int64_t)> body) {
  Run(CeilDiv(count, grain),
      [&](int64_t part) { body(part * grain, std::min(count, (part + 1) * grain)); });
}

}  // namespace strata
