// Laws of plans that the planner makes for random traces and random budgets.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>

#include "runtime/base/status.h"
#include "runtime/plan/least_budget.h"
#include "runtime/plan/planner.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

/// Among candidates that differ by so little the search does not look at all (decision
/// 0006): a larger budget may lead it to another one.
constexpr double kSlowerMost = 1.03;

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

// Makes some of the budgets larger, by up to half or by up to sixteen times.
Budgets Enlarged(const Budgets& budgets, std::mt19937& random) {
  const double most = std::bernoulli_distribution(0.5)(random) ? 0.5 : 4;
  const auto enlarged = [&](int64_t bytes) {
    if (std::bernoulli_distribution(0.5)(random)) return bytes;
    const double factor =
        std::exp2(std::uniform_real_distribution<double>(0, most)(random));
    return static_cast<int64_t>(static_cast<double>(bytes) * factor);
  };
  return {enlarged(budgets.device_bytes), enlarged(budgets.host_bytes),
          enlarged(budgets.nvme_bytes)};
}

TEST(PlannedBudgets, ALargerBudgetIsNeverInfeasibleNorSlowerByMoreThanItsLimit) {
  std::mt19937 random(2);
  double worst = 1;
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    PlanRequest request = RandomRequest(random);
    const auto small = PlanStep(request);
    if (!small.ok()) continue;
    request.budgets = Enlarged(request.budgets, random);
    const auto large = PlanStep(request);
    ASSERT_TRUE(large.ok()) << i << ": " << large.status();
    ++compared;
    worst = std::max(worst, large->forecast.seconds / small->forecast.seconds);
    EXPECT_LE(large->forecast.seconds, kSlowerMost * small->forecast.seconds) << i;
  }
  std::cout << compared << " compared, the worst " << worst << '\n';
  EXPECT_GE(compared, 60);
}

int64_t& BudgetOf(TierKind tier, Budgets& budgets) {
  return tier == TierKind::kDevice ? budgets.device_bytes
         : tier == TierKind::kHost ? budgets.host_bytes
                                   : budgets.nvme_bytes;
}

TEST(PlannedBudgets, ARefusalNamesTheLeastOfEachTierToTheByte) {
  std::mt19937 random(3);
  int mended = 0;
  for (int i = 0; i < 50; ++i) {
    PlanRequest request = RandomRequest(random);
    const Budgets given = request.budgets;
    const auto refused = PlanStep(request);
    if (refused.ok()) continue;
    ASSERT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    Candidates candidates(request);
    const auto found = FindMends(
        request, candidates, {given.device_bytes, given.host_bytes, given.nvme_bytes});
    ASSERT_TRUE(found.ok()) << found.status();
    for (const Mend& mend : found->mends) {
      ++mended;
      int64_t& budget = BudgetOf(mend.tier, request.budgets);
      EXPECT_GT(mend.bytes, budget) << i << " " << Name(mend.tier);
      budget = mend.bytes;
      const auto enough = PlanStep(request);
      EXPECT_TRUE(enough.ok()) << i << " " << Name(mend.tier) << enough.status();
      budget = mend.bytes - 1;
      EXPECT_FALSE(PlanStep(request).ok()) << i << " " << Name(mend.tier);
      request.budgets = given;
    }
  }
  EXPECT_GE(mended, 8);
}

TEST(PlannedBudgets, OneByteLessThanThePlansLeastIsRefusedWithThatAsTheMend) {
  std::mt19937 random(4);
  for (int i = 0; i < 8; ++i) {
    PlanRequest request = RandomRequest(random);
    request.budgets.device_bytes = 0;
    Candidates candidates(request);
    const auto found =
        FindMends(request, candidates,
                  {0, request.budgets.host_bytes, request.budgets.nvme_bytes});
    ASSERT_TRUE(found.ok()) << found.status();
    if (found->mends.empty()) continue;
    const int64_t least = found->mends.front().bytes;
    request.budgets.device_bytes = least - 1;
    const absl::Status status = PlanStep(request).status();
    const std::string message(status.message());
    EXPECT_NE(message.find(std::to_string(least - 1)), std::string::npos) << message;
    const std::string mend(MendOf(status));
    EXPECT_NE(mend.find("raise device memory to " + std::to_string(least) + " bytes"),
              std::string::npos)
        << mend;
  }
}

}  // namespace
}  // namespace strata
