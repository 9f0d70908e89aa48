// Laws of plans as they are compiled from random decisions: every one verifies and runs
// right in any schedule, and once it is damaged so that it can go wrong, it is refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>

#include "runtime/plan/compile.h"
#include "runtime/plan/verifier.h"
#include "tests/support/interleavings.h"
#include "tests/support/mutations.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

PlanSet RandomPlanSet(uint32_t seed, int32_t layers_max) {
  std::mt19937 random(seed);
  const StepTrace trace = RandomTrace(random, layers_max);
  const Decisions decisions = RandomDecisions(random, trace);
  const PlanSetOptions options{{trace.micro_batches}, seed % 2 == 0};
  auto set = CompilePlanSet(trace, decisions, PlanKeys(trace, decisions, options));
  EXPECT_TRUE(set.ok()) << "seed " << seed << ": " << set.status();
  return *std::move(set);
}

Budgets BudgetsOf(const PlanSet& set) {
  return {set.arena_bytes.device, set.arena_bytes.host, set.arena_bytes.nvme};
}

TEST(PlanProperty, EveryCompiledPlanSetVerifies) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const PlanSet set = RandomPlanSet(seed, 6);
    const absl::Status status = VerifyPlanSet(set, BudgetsOf(set));
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
  }
}

TEST(PlanProperty, NoScheduleChangesWhatAVerifiedSetDoes) {
  std::mt19937 random(1);
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const PlanSet set = RandomPlanSet(seed, 4);
    ASSERT_TRUE(VerifyPlanSet(set, BudgetsOf(set)).ok());
    const Interleavings interleavings(set);
    for (int32_t plan = 0; plan < static_cast<int32_t>(set.plans.size()); ++plan) {
      EXPECT_EQ(interleavings.RunAlone(set, plan, 5, random), "")
          << "seed " << seed << ", " << ToString(set.plans[plan].key);
    }
    for (const Link& link : set.links) {
      EXPECT_EQ(interleavings.RunLinked(set, link, 1, random), "")
          << "seed " << seed << ", " << ToString(set.plans[link.first].key) << " then "
          << ToString(set.plans[link.second].key);
    }
  }
}

/// What became of the mutants of one kind.
struct Tally {
  int made = 0, unsafe = 0, refused = 0;
};

// Does the mutant go wrong in one of some schedules? "" if it was not seen to.
std::string GoesWrong(const Interleavings& interleavings, const PlanSet& mutant,
                      const Mutation& mutation, int count, std::mt19937& random) {
  if (mutation.link >= 0) {
    return interleavings.RunLinked(mutant, mutant.links[mutation.link], count, random);
  }
  std::string wrong = interleavings.RunAlone(mutant, mutation.plan, count, random);
  for (const Link& link : mutant.links) {
    if (!wrong.empty()) break;
    if (link.first != mutation.plan && link.second != mutation.plan) continue;
    wrong = interleavings.RunLinked(mutant, link, 1 + count / 10, random);
  }
  return wrong;
}

class Mutants : public testing::TestWithParam<int> {
 protected:
  MutationKind kind() const { return static_cast<MutationKind>(GetParam()); }

  void Try(uint32_t seed, std::mt19937& random) {
    const PlanSet right = RandomPlanSet(seed, 4);
    const Interleavings interleavings(right);
    PlanSet mutant = right;
    const Mutation mutation = Mutate(kind(), random, mutant);
    if (mutation.what.empty()) return;
    const bool refused = !VerifyPlanSet(mutant, BudgetsOf(right)).ok();
    ++tally_.made;
    tally_.refused += refused ? 1 : 0;
    const bool runs = mutation.plan >= 0 || mutation.link >= 0;
    if (refused && IsAlwaysWrong(kind())) return;
    EXPECT_FALSE(IsAlwaysWrong(kind())) << "seed " << seed << ": accepted with a "
                                        << Name(kind()) << ": " << mutation.what;
    if (!runs) return;
    const std::string wrong =
        GoesWrong(interleavings, mutant, mutation, refused ? 20 : 50, random);
    tally_.unsafe += wrong.empty() ? 0 : 1;
    EXPECT_TRUE(refused || wrong.empty())
        << "seed " << seed << ": accepted with a " << Name(kind()) << " ("
        << mutation.what << "), but " << wrong;
  }

  Tally tally_;
};

TEST_P(Mutants, ThatCanGoWrongAreRefused) {
  std::mt19937 random(static_cast<uint32_t>(GetParam()));
  // Most waits of links are on what is complete when the first plan has its result, so
  // only few are missed.
  const uint32_t count = kind() == MutationKind::kDropLinkWait ? 150 : 50;
  for (uint32_t seed = 0; seed < count; ++seed) Try(seed, random);
  std::cout << Name(kind()) << ": " << tally_.made << " made, " << tally_.unsafe
            << " seen to go wrong, " << tally_.refused << " refused\n";
  // The brute force sees enough to contradict the verifier.
  EXPECT_GE(tally_.made, 20);
  if (IsAlwaysWrong(kind())) {
    EXPECT_EQ(tally_.refused, tally_.made);
  } else {
    EXPECT_GE(tally_.unsafe, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mutants, testing::Range(0, kMutationKinds),
                         [](const auto& kind) {
                           std::string name =
                               Name(static_cast<MutationKind>(kind.param));
                           std::replace(name.begin(), name.end(), ' ', '_');
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace strata
