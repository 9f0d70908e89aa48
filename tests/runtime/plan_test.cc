#include "runtime/plan/plan.h"

#include <gtest/gtest.h>

namespace strata {
namespace {

PlanSet SetOfModes(std::vector<UpdateMode> modes) {
  PlanSet set;
  set.layout.layers.resize(1);
  for (const UpdateMode mode : modes) {
    set.layout.layers[0].slices.push_back({.mode = mode});
  }
  return set;
}

Plan PlanOf(PlanKind kind, bool speculate) {
  Plan plan;
  plan.key = {.kind = kind, .speculate = speculate};
  return plan;
}

PlanKey Next(PlanKind kind, Border start) { return {.kind = kind, .start = start}; }

// The borders that a training step may start at after `plan`, as three letters.
std::string TrainStarts(const PlanSet& set, const Plan& plan) {
  std::string starts;
  if (MayFollow(set, plan, Next(PlanKind::kTrain, Border::kSettled))) starts += "S";
  if (MayFollow(set, plan, Next(PlanKind::kTrain, Border::kPending))) starts += "P";
  if (MayFollow(set, plan, Next(PlanKind::kTrain, Border::kPendingClipped)))
    starts += "C";
  return starts;
}

TEST(MayFollow, AfterTrainingTheBorderIsWhatTheSlicesLeave) {
  using enum UpdateMode;
  const Plan speculating = PlanOf(PlanKind::kTrain, true);
  const Plan exact = PlanOf(PlanKind::kTrain, false);
  EXPECT_EQ(TrainStarts(SetOfModes({kImmediate}), speculating), "S");
  EXPECT_EQ(TrainStarts(SetOfModes({}), speculating), "S");
  EXPECT_EQ(TrainStarts(SetOfModes({kDeferred}), exact), "SPC");
  EXPECT_EQ(TrainStarts(SetOfModes({kDeferred, kLagged}), speculating), "SPC");
  EXPECT_EQ(TrainStarts(SetOfModes({kDeferred, kLagged}), exact), "SC");
}

TEST(MayFollow, AStepThatUpdatedASliceCannotBeSkipped) {
  using enum UpdateMode;
  EXPECT_EQ(
      TrainStarts(SetOfModes({kImmediate, kDeferred}), PlanOf(PlanKind::kTrain, true)),
      "PC");
}

TEST(MayFollow, EvaluateAndFlushLeaveASettledState) {
  const PlanSet set = SetOfModes({UpdateMode::kLagged});
  for (const PlanKind kind : {PlanKind::kEvaluate, PlanKind::kFlush}) {
    EXPECT_EQ(TrainStarts(set, PlanOf(kind, true)), "S");
    EXPECT_TRUE(MayFollow(set, PlanOf(kind, true),
                          Next(PlanKind::kEvaluate, Border::kSettled)));
    EXPECT_FALSE(
        MayFollow(set, PlanOf(kind, true), Next(PlanKind::kFlush, Border::kPending)));
  }
}

TEST(MayFollow, FlushServesClippedStepsToo) {
  const PlanSet set = SetOfModes({UpdateMode::kLagged});
  const PlanKey flush = Next(PlanKind::kFlush, Border::kPending);
  EXPECT_TRUE(MayFollow(set, PlanOf(PlanKind::kTrain, true), flush));
  EXPECT_TRUE(MayFollow(set, PlanOf(PlanKind::kTrain, false), flush));
  EXPECT_FALSE(MayFollow(SetOfModes({UpdateMode::kImmediate}),
                         PlanOf(PlanKind::kTrain, true), flush));
}

TEST(PlanSet, FindsPlansByKeyAndLinksByEnds) {
  PlanSet set;
  set.plans = {PlanOf(PlanKind::kTrain, true), PlanOf(PlanKind::kTrain, false)};
  set.links = {{.first = 0, .second = 1}, {.first = 1, .second = 1}};
  EXPECT_EQ(set.Find({.speculate = false}), 1);
  EXPECT_EQ(set.Find({.micro_batches = 2}), -1);
  EXPECT_EQ(set.FindLink(1, 1), 1);
  EXPECT_EQ(set.FindLink(1, 0), -1);
}

TEST(Describe, NamesLayerRoleAndIndex) {
  StepTrace trace;
  trace.layers = {{.name = "embedding"}, {.name = "block.3"}};
  Plan plan;
  plan.accesses = {{.operand = Operand::kSource, .value = {Role::kState, 1, 0}}};
  const Op forward{.code = OpCode::kForward, .layer = 1, .micro_batch = 2};
  const Op copy{.code = OpCode::kCopy, .layer = 1, .slice = 0, .access_count = 1};
  const Op reduce{.code = OpCode::kReduce, .layer = 0, .slice = 4};
  EXPECT_EQ(Describe(trace, plan, forward), "block.3/forward[2]");
  EXPECT_EQ(Describe(trace, plan, copy), "block.3/state[0]");
  EXPECT_EQ(Describe(trace, plan, reduce), "embedding/reduce[4]");
}

TEST(ToString, NamesValuesAndKeys) {
  EXPECT_EQ(ToString(Value{Role::kWeight, 3, -1}), "weight(3, -1)");
  EXPECT_EQ(ToString(PlanKey{.start = Border::kPending, .micro_batches = 2}),
            "train(pending, 2 micro-batches, speculating)");
}

}  // namespace
}  // namespace strata
