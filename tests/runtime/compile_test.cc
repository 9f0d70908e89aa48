#include "runtime/plan/compile.h"

#include <gtest/gtest.h>

#include "tests/support/random_plans.h"

namespace strata {
namespace {

absl::StatusOr<PlanSet> RandomPlanSet(uint32_t seed) {
  std::mt19937 random(seed);
  const StepTrace trace = RandomTrace(random, 6);
  const Decisions decisions = RandomDecisions(random, trace);
  const PlanSetOptions options{{trace.micro_batches, 1}, true};
  return CompilePlanSet(trace, decisions, PlanKeys(trace, decisions, options));
}

TEST(Compile, EqualInputsGiveEqualPlansByteForByte) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const auto a = RandomPlanSet(seed), b = RandomPlanSet(seed);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    EXPECT_EQ(a->plans, b->plans);
    EXPECT_EQ(a->links, b->links);
    EXPECT_EQ(a->layout, b->layout);
    EXPECT_EQ(a->arena_bytes, b->arena_bytes);
  }
}

TEST(Compile, WaitsPointBackwardsAndNeverIntoTheSameOrderedLane) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const auto set = RandomPlanSet(seed);
    ASSERT_TRUE(set.ok()) << set.status();
    for (const Plan& plan : set->plans) {
      for (size_t i = 0; i < plan.ops.size(); ++i) {
        for (const uint32_t wait : plan.Waits(plan.ops[i])) {
          EXPECT_LT(wait, i);
          EXPECT_FALSE(plan.ops[wait].lane == plan.ops[i].lane &&
                       RunsOneByOne(plan.ops[i].lane));
        }
      }
    }
  }
}

TEST(Compile, RefusesDecisionsThatContradictTheTrace) {
  std::mt19937 random(1);
  const StepTrace trace = RandomTrace(random, 4);
  Decisions decisions = RandomDecisions(random, trace);
  const int32_t layer = trace.LowestTrainable();
  decisions.layers[layer].slices.back().end += trace.tile_elements;
  const auto set = CompilePlanSet(trace, decisions,
                                  PlanKeys(trace, decisions, {{trace.micro_batches}}));
  ASSERT_FALSE(set.ok());
  EXPECT_NE(set.status().message().find(trace.layers[layer].name),
            absl::string_view::npos);
}

}  // namespace
}  // namespace strata
