// Law 6 for the executor: once it runs, it allocates nothing and opens nothing. This
// binary counts every operator new, of all threads.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <new>
#include <random>
#include <vector>

#include "runtime/device/cpu_device.h"
#include "runtime/plan/compile.h"
#include "runtime/plan/executor.h"
#include "tests/support/list_reference.h"
#include "tests/support/random_plans.h"

namespace {
std::atomic<int64_t> allocation_count = 0;

void* Counted(std::size_t size, std::size_t alignment) {
  ++allocation_count;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size) != 0) std::abort();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) {
  return Counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace strata {
namespace {

// Moves at once, and keeps no books: MemoryStore allocates.
class PlainStore final : public Store {
 public:
  explicit PlainStore(int64_t capacity_bytes)
      : bytes_(static_cast<size_t>(capacity_bytes)) {}
  int64_t capacity_bytes() const override {
    return static_cast<int64_t>(bytes_.size());
  }
  Ticket Read(int64_t offset, std::byte* memory, int64_t size_bytes,
              absl::string_view) override {
    std::memcpy(memory, bytes_.data() + offset, static_cast<size_t>(size_bytes));
    return ++reads_;
  }
  Ticket Write(int64_t offset, const std::byte* memory, int64_t size_bytes,
               absl::string_view) override {
    std::memcpy(bytes_.data() + offset, memory, static_cast<size_t>(size_bytes));
    return ++writes_;
  }
  absl::StatusOr<Ticket> ReadsCompleted() override { return reads_; }
  absl::StatusOr<Ticket> WritesCompleted() override { return writes_; }
  void Drain() override {}
  int64_t bytes_read() const override { return 0; }
  int64_t bytes_written() const override { return 0; }

 private:
  std::vector<std::byte> bytes_;
  Ticket reads_ = 0, writes_ = 0;
};

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(ExecutorSteadyState, AllocatesAndOpensNothingInThreeHundredRuns) {
  std::mt19937 random(11);
  const StepTrace trace = RandomTrace(random, 5);
  const Decisions decisions = RandomDecisions(random, trace);
  const auto set = CompilePlanSet(
      trace, decisions, PlanKeys(trace, decisions, {{trace.micro_batches}, true}));
  ASSERT_TRUE(set.ok()) << set.status();
  ASSERT_GT(set->arena_bytes.nvme, 0);  // all lanes but the collective one take part
  const auto device = CreateCpuDevice({.device_bytes = set->arena_bytes.device,
                                       .pinned_host_bytes = set->arena_bytes.host});
  PlainStore store(set->arena_bytes.nvme);
  HashRunner runner;
  const auto executor = *Executor::Create(*set, {.device = device.get(),
                                                 .host_device = device.get(),
                                                 .store = &store,
                                                 .runner = &runner});
  int32_t last = 0;
  const auto run_next = [&] {
    int32_t next = static_cast<int32_t>(random() % set->plans.size());
    while (set->FindLink(last, next) < 0) {
      next = static_cast<int32_t>(random() % set->plans.size());
    }
    last = next;
    return executor->Run(next).ok();
  };
  ASSERT_TRUE(executor->Run(last).ok());
  for (int run = 0; run < 20; ++run) ASSERT_TRUE(run_next());
  const int64_t descriptors = OpenDescriptors();
  const int64_t allocations = allocation_count;
  bool all_ok = true;
  for (int run = 0; run < 300; ++run) all_ok &= run_next();
  const int64_t new_allocations = allocation_count - allocations;
  EXPECT_TRUE(all_ok);
  EXPECT_EQ(new_allocations, 0);
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

}  // namespace
}  // namespace strata
