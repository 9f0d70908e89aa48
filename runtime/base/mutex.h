/// A mutex and a condition variable over the standard ones, with clang's thread-safety
/// annotations. absl::Mutex would do the same, but distributions ship Abseil without
/// ThreadSanitizer's instrumentation and then correct code is reported as racy.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define STRATA_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define STRATA_THREAD_ANNOTATION(x)
#endif
#define STRATA_GUARDED_BY(mutex) STRATA_THREAD_ANNOTATION(guarded_by(mutex))
#define STRATA_REQUIRES(mutex) STRATA_THREAD_ANNOTATION(requires_capability(mutex))

namespace strata {

class STRATA_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  void Lock() STRATA_THREAD_ANNOTATION(acquire_capability()) { mutex_.lock(); }
  void Unlock() STRATA_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class STRATA_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) STRATA_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() STRATA_THREAD_ANNOTATION(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  /// Wakes spuriously too: always call it in a loop over the condition.
  void Wait(Mutex& mutex) STRATA_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  /// As Wait(); false once `deadline` has passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      STRATA_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace strata
