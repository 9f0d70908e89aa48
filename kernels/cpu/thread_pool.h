/// The threads of the CPU kernels. Not OpenMP: its barriers are invisible to
/// ThreadSanitizer, waiting threads spin (which halves a busy machine), and clang's
/// runtime would live beside the GNU one that oneDNN brings.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/base/mutex.h"

namespace strata {

/// Thread-safe: calls from several threads share the workers. The caller works too, so
/// a pool of one thread starts none.
class ThreadPool {
 public:
  static constexpr int kThreadsMax = 1024;

  /// REQUIRES: 1 <= threads <= kThreadsMax. The caller is one of them.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(part) once for each part of [0, parts), in any order and in parallel,
  /// and returns when all calls have returned. `body` must not call the pool.
  void Run(int64_t parts, absl::FunctionRef<void(int64_t part)> body);

  /// Run for pieces [begin, end) of `grain` items each (the last may be shorter).
  void RunRanges(int64_t count, int64_t grain,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> body);

 private:
  struct Job {
    absl::FunctionRef<void(int64_t)> body;
    int64_t parts;
    int64_t started = 0;
    int64_t finished = 0;
  };
  void Work();
  /// Takes the next part of `job`; the last one takes the job off the list.
  int64_t TakePart(Job& job) STRATA_REQUIRES(mutex_);

  Mutex mutex_;
  CondVar work_arrived_;
  CondVar work_finished_;
  std::vector<Job*> jobs_ STRATA_GUARDED_BY(mutex_);  // each on its caller's stack
  bool stopping_ STRATA_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace strata
