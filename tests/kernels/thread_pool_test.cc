#include "kernels/cpu/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace strata {
namespace {

TEST(ThreadPool, RunsEveryPartOnceAndReturnsWhenAllAreDone) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (const int64_t parts : {0, 1, 2, 100}) {
      std::vector<int> runs(static_cast<size_t>(parts), 0);  // plain: tsan watches
      pool.Run(parts, [&](int64_t part) { ++runs[static_cast<size_t>(part)]; });
      EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(parts), 1));
    }
  }
}

TEST(ThreadPool, RangesCoverTheCountWithoutOverlap) {
  ThreadPool pool(3);
  for (const int64_t count : {1, 6, 7, 8}) {
    std::vector<int> seen(static_cast<size_t>(count), 0);
    pool.RunRanges(count, 3, [&](int64_t begin, int64_t end) {
      EXPECT_LE(end - begin, 3);
      for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
    });
    EXPECT_EQ(seen, std::vector<int>(static_cast<size_t>(count), 1));
  }
}

TEST(ThreadPool, ServesSeveralCallersAtOnce) {
  ThreadPool pool(3);
  std::atomic<int64_t> total = 0;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        int64_t sum = 0;
        std::vector<int64_t> parts(20, 0);
        pool.Run(20, [&](int64_t part) { parts[static_cast<size_t>(part)] = part; });
        for (const int64_t part : parts) sum += part;
        total += sum;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 50 * 190);
}

}  // namespace
}  // namespace strata
