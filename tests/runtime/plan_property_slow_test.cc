// The law of plan_property_test on many more and larger plans: a minute or two.

#include <gtest/gtest.h>

#include "runtime/plan/compile.h"
#include "runtime/plan/verifier.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

TEST(PlanPropertySlow, TenThousandCompiledPlanSetsVerify) {
  for (uint32_t seed = 1'000'000; seed < 1'010'000; ++seed) {
    std::mt19937 random(seed);
    const StepTrace trace = RandomTrace(random, 8);
    const Decisions decisions = RandomDecisions(random, trace);
    const PlanSetOptions options{{trace.micro_batches}, seed % 4 == 0};
    const auto set =
        CompilePlanSet(trace, decisions, PlanKeys(trace, decisions, options));
    ASSERT_TRUE(set.ok()) << "seed " << seed << ": " << set.status();
    const TierBytes& bytes = set->arena_bytes;
    const absl::Status status =
        VerifyPlanSet(*set, {bytes.device, bytes.host, bytes.nvme});
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
  }
}

}  // namespace
}  // namespace strata
