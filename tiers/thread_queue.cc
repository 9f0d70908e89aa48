#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "runtime/base/mutex.h"
#include "runtime/base/status.h"
#include "tiers/bounded_ring.h"
#include "tiers/io_queue.h"
#include "tiers/signals.h"

namespace strata {
namespace {

/// Enough to keep one drive busy with chunks of a megabyte or more.
constexpr int kWorkerCount = 4;

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(const IoQueueOptions& options)
      : depth_(options.depth), submitted_(options.depth), outcomes_(options.depth) {
    for (const IoFile& file : options.files) descriptors_.push_back(file.descriptor);
    for (int i = 0; i < std::min(kWorkerCount, depth_); ++i) {
      workers_.emplace_back([this] { Work(); });
    }
  }

  ~ThreadQueue() override {
    {
      MutexLock lock(mutex_);
      STRATA_CHECK(in_flight_count_ == 0);
      stopping_ = true;
    }
    work_.NotifyAll();
    for (std::thread& worker : workers_) worker.join();
  }

  int depth() const override { return depth_; }

  void Submit(const IoAttempt& attempt) override {
    MutexLock lock(mutex_);
    STRATA_CHECK(in_flight_count_ < depth_);
    ++in_flight_count_;
    submitted_.Push(attempt);
    work_.NotifyOne();
  }

  int Reap(std::span<IoOutcome> outcomes, std::chrono::milliseconds wait) override {
    const auto deadline = std::chrono::steady_clock::now() + wait;
    MutexLock lock(mutex_);
    while (outcomes_.empty() && !woken_) {
      if (!done_.WaitUntil(mutex_, deadline)) break;
    }
    woken_ = false;
    int count = 0;
    while (!outcomes_.empty() && count < static_cast<int>(outcomes.size())) {
      outcomes[count++] = outcomes_.Pop();
    }
    in_flight_count_ -= count;
    return count;
  }

  void Wake() override {
    MutexLock lock(mutex_);
    woken_ = true;
    done_.NotifyOne();
  }

  std::string description() const override { return "pread and pwrite on 4 threads"; }

 private:
  void Work() {
    BlockAllSignals();
    while (true) {
      IoAttempt attempt;
      {
        MutexLock lock(mutex_);
        while (submitted_.empty() && !stopping_) work_.Wait(mutex_);
        if (submitted_.empty()) return;
        attempt = submitted_.Pop();
      }
      const IoOutcome outcome = {.tag = attempt.tag, .result = Try(attempt)};
      MutexLock lock(mutex_);
      outcomes_.Push(outcome);
      done_.NotifyOne();
    }
  }

  int64_t Try(const IoAttempt& attempt) const {
    const int descriptor = descriptors_[attempt.file];
    const size_t size = static_cast<size_t>(attempt.size_bytes);
    const ssize_t moved =
        attempt.op == IoOp::kRead
            ? pread(descriptor, attempt.memory, size, attempt.offset)
            : pwrite(descriptor, attempt.memory, size, attempt.offset);
    return moved < 0 ? -errno : moved;
  }

  const int depth_;
  std::vector<int> descriptors_;
  Mutex mutex_;
  CondVar work_;
  CondVar done_;
  BoundedRing<IoAttempt> submitted_ STRATA_GUARDED_BY(mutex_);
  BoundedRing<IoOutcome> outcomes_ STRATA_GUARDED_BY(mutex_);
  int in_flight_count_ STRATA_GUARDED_BY(mutex_) = 0;
  bool woken_ STRATA_GUARDED_BY(mutex_) = false;
  bool stopping_ STRATA_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoQueue>> MakeThreadQueue(
    const IoQueueOptions& options) {
  STRATA_CHECK(options.depth > 0);
  return std::make_unique<ThreadQueue>(options);
}

}  // namespace strata
