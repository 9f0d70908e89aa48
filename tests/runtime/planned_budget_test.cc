// Laws of plans that the planner makes for random traces and random budgets.

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/plan/planner.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

PlanRequest RandomRequest(std::mt19937& random) {
  PlanRequest request;
  request.trace = RandomTrace(random, 6);
  request.plans = {{request.trace.micro_batches, 1}, true};
  // From far too little to enough for everything on the device.
  const auto bytes = [&random](double low, double high) {
    return static_cast<int64_t>(
        std::exp2(std::uniform_real_distribution<double>(low, high)(random)));
  };
  request.budgets = {bytes(16, 22), bytes(16, 22), bytes(12, 22)};
  return request;
}

TEST(PlannedBudgets, EveryPlanVerifiesWithinItsBudgetsOrIsRefused) {
  std::mt19937 random(1);
  int planned = 0, refused = 0;
  for (int i = 0; i < 60; ++i) {
    const PlanRequest request = RandomRequest(random);
    const auto step = PlanStep(request);
    if (!step.ok()) {
      EXPECT_EQ(step.status().code(), absl::StatusCode::kResourceExhausted)
          << i << ": " << step.status();
      ++refused;
      continue;
    }
    ++planned;
    const absl::Status status = VerifyPlanSet(step->set, request.budgets);
    EXPECT_TRUE(status.ok()) << i << ": " << status;
  }
  EXPECT_GE(planned, 10);
  EXPECT_GE(refused, 10);
}

TEST(PlannedBudgets, MoreMemoryNeverMakesAPlanInfeasible) {
  std::mt19937 random(2);
  for (int i = 0; i < 20; ++i) {
    PlanRequest request = RandomRequest(random);
    const auto small = PlanStep(request);
    if (!small.ok()) continue;
    request.budgets.device_bytes += request.budgets.device_bytes / 4;
    request.budgets.host_bytes += request.budgets.host_bytes / 4;
    const auto large = PlanStep(request);
    ASSERT_TRUE(large.ok()) << i << ": " << large.status();
  }
}

}  // namespace
}  // namespace strata
