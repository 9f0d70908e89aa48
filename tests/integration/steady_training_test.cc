/// Law 6 for whole trainings: three hundred steps through three tiers allocate no
/// arena, open nothing, and leave heap and descriptors as they were after the second.

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <vector>

#include "runtime/device/cpu_device.h"
#include "tests/support/temp_directory.h"
#include "tests/support/toy_run.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

constexpr int kSteps = 300;

/// While it lives, every attempt to open a file, a pipe or a socket fails.
class NoDescriptors {
 public:
  NoDescriptors() {
    STRATA_CHECK(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    rlim_t highest = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      highest = std::max<rlim_t>(highest, std::stoul(entry.path().filename()));
    }
    const rlimit full = {highest + 1, before_.rlim_max};
    STRATA_CHECK(setrlimit(RLIMIT_NOFILE, &full) == 0);
    for (int gap = dup(0); gap >= 0; gap = dup(0)) gaps_.push_back(gap);
  }
  ~NoDescriptors() {
    for (const int gap : gaps_) close(gap);
    STRATA_CHECK(setrlimit(RLIMIT_NOFILE, &before_) == 0);
  }

 private:
  rlimit before_{};
  std::vector<int> gaps_;
};

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t OpenDescriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// Weights, state, gradients and activations in all three tiers; bf16 and clipped, with
/// deferred and lagged updates, so that every lane works.
TrainerOptions Options(const std::string& directory) {
  TrainerOptions options{.budgets = {kAmpleBytes, kAmpleBytes, kAmpleBytes}};
  options.pins = {.weights = TierKind::kHost,
                  .optimizer = TierKind::kNvme,
                  .gradients = TierKind::kDevice,
                  .activations = TierKind::kNvme};
  options.overrides.lagged_share = 0.5;
  options.make_store =
      [directory](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
    return NvmeStore::Create({.directories = {{directory}},
                              .capacity_bytes = needs.capacity_bytes,
                              .extent_count_max = needs.extent_count,
                              .requests_in_flight_max = needs.requests_in_flight});
  };
  return options;
}

TEST(SteadyTraining, AllocatesAndOpensNothingInThreeHundredSteps) {
  const TempDirectory directory;
  const Scenario scenario{{.dtype = DType::kBF16}, {.max_grad_norm = 4.3}};
  const auto plan = PlanToyTrainer(scenario, Options(directory.path()));
  ASSERT_TRUE(plan.ok()) << plan.status();
  // A device without a byte more than the plan's arenas: a further one would not fit.
  const ToyTrainer toy =
      MakeToyTrainer(scenario, Options(directory.path()), plan->set.arena_bytes);
  ASSERT_NE(toy.trainer, nullptr);
  ASSERT_NE(toy.trainer->store(), nullptr);
  ASSERT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  Trace trace;
  trace.numbers.reserve(3 * kSteps);
  const auto run_step = [&](int step) {
    return RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace);
  };
  ASSERT_TRUE(run_step(0) && run_step(1));
  const int64_t heap = HeapBytes(), descriptors = OpenDescriptors();
  {
    const NoDescriptors none;
    ASSERT_EQ(dup(0), -1);
    for (int step = 2; step < kSteps; ++step) ASSERT_TRUE(run_step(step)) << step;
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  // What a thread caches of freed blocks counts as used.
  EXPECT_LT(HeapBytes() - heap, 64 * kKiB);
  EXPECT_GT(trace.clipped, 20);
  EXPECT_GT(trace.skipped, 20);
}

}  // namespace
}  // namespace strata
