#include "runtime/plan/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/loose_plan.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

constexpr Lane kCompute = Lane::kCompute, kIn = Lane::kHostToDevice,
               kOut = Lane::kDeviceToHost, kDiskRead = Lane::kNvmeRead,
               kDiskWrite = Lane::kNvmeWrite, kCpu = Lane::kCpu;

// Small numbers, so that the expected times can be worked out by hand.
MachineProfile HandProfile() {
  return {.name = "by hand",
          .compute_flops = 100,
          .device_memory = 50,
          .host_to_device = 10,
          .device_to_host = 10,
          .both_directions = 16,
          .host_memory = 1000,
          .cpu_update = 900,
          .cpu_advance = 900,
          .nvme_read = 4,
          .nvme_write = 2,
          .nvme_both = 3,  // half duplex
          .op_overhead_seconds = 0};
}

double RateOf(const MachineProfile& profile, std::vector<Lane> active, Lane lane) {
  std::array<bool, kLaneCount> set{};
  for (const Lane l : active) set[static_cast<size_t>(l)] = true;
  return LaneRates(profile, set)[static_cast<size_t>(lane)];
}

TEST(LaneRates, ALaneAloneHasItsOwnRateAndOthersNone) {
  const MachineProfile profile = HandProfile();
  EXPECT_DOUBLE_EQ(RateOf(profile, {kCompute}, kCompute), 100);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn}, kIn), 10);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kDiskWrite}, kDiskWrite), 2);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn}, kOut), 0);
  EXPECT_DOUBLE_EQ(RateOf(profile, {Lane::kCpu}, Lane::kCpu), 900);
}

TEST(LaneRates, BothDirectionsShareTheLinkInProportion) {
  MachineProfile profile = HandProfile();
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn, kOut, kCompute}, kIn), 8);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn, kOut, kCompute}, kOut), 8);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn, kOut, kCompute}, kCompute), 100);
  profile.device_to_host = 5;
  profile.both_directions = 12;
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn, kOut}, kIn), 8);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kIn, kOut}, kOut), 4);
}

TEST(LaneRates, WhatAFrozenLaneLeavesGoesToTheOthers) {
  MachineProfile profile = HandProfile();
  profile.host_memory = 12;
  // The drive is full at half of each rate (2 + 1 bytes); the copy takes the other 9.
  const std::vector<Lane> active = {kIn, kDiskRead, kDiskWrite};
  EXPECT_DOUBLE_EQ(RateOf(profile, active, kDiskRead), 2);
  EXPECT_DOUBLE_EQ(RateOf(profile, active, kDiskWrite), 1);
  EXPECT_DOUBLE_EQ(RateOf(profile, active, kIn), 9);
}

TEST(LaneRates, TheCpuLaneSharesHostMemoryWithCopies) {
  MachineProfile profile = HandProfile();
  profile.host_memory = 20;
  EXPECT_DOUBLE_EQ(RateOf(profile, {kCpu}, kCpu), 20);  // no more than there is
  profile.cpu_update = 19;
  EXPECT_DOUBLE_EQ(RateOf(profile, {kCpu}, kCpu), 19);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kCpu, kIn}, kCpu), 19.0 * 20 / 29);
  EXPECT_DOUBLE_EQ(RateOf(profile, {kCpu, kIn}, kIn), 10.0 * 20 / 29);
}

/// Plans of bare work: a forward of `work` FLOP in the compute lane, else a transfer of
/// `work` bytes.
class SimulatorTest : public testing::Test {
 protected:
  struct Work {
    Lane lane;
    int64_t work;
    std::vector<uint32_t> waits = {};
  };

  int32_t AddPlan(const std::vector<Work>& list, uint32_t result_op) {
    LoosePlan plan{.key = {}, .ops = {}, .result_op = result_op};
    for (const Work& work : list) {
      LooseOp op{{.code = OpCode::kForward, .lane = work.lane}, {}, work.waits};
      if (work.lane == kCompute) {
        op.op.layer = set_.trace.layer_count();
        set_.trace.layers.push_back({.forward_flops = static_cast<double>(work.work)});
      } else {
        op.op.code = OpCode::kCopy;
        const Access access{
            Operand::kSource, AccessMode::kRead, TierKind::kHost, 0, work.work, {}};
        op.accesses = {access, access};
        op.accesses[1].operand = Operand::kTarget;
      }
      plan.ops.push_back(op);
    }
    set_.plans.push_back(Tighten(plan));
    return static_cast<int32_t>(set_.plans.size()) - 1;
  }
  void AddLink(int32_t first, int32_t second, std::vector<Link::Wait> waits) {
    set_.links.push_back({first, second, std::move(waits)});
  }
  Forecast Run(std::vector<int32_t> sequence) const {
    return Simulate(set_, sequence, profile_);
  }
  static const LaneForecast& LaneOf(const Forecast& forecast, Lane lane) {
    return forecast.lanes[static_cast<size_t>(lane)];
  }

  PlanSet set_;
  MachineProfile profile_ = HandProfile();
};

TEST_F(SimulatorTest, TheLongerDirectionGoesOnAlone) {
  // 80 bytes each way at 8, then the other 80 alone at 10.
  const Forecast forecast = Run({AddPlan({{kIn, 80}, {kOut, 160}}, 1)});
  EXPECT_DOUBLE_EQ(forecast.spans[0].end_seconds, 10);
  EXPECT_DOUBLE_EQ(forecast.seconds, 18);
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kIn).busy_seconds, 10);
  EXPECT_EQ(LaneOf(forecast, kIn).bytes, 80);
  EXPECT_EQ(LaneOf(forecast, kOut).bytes, 160);
}

TEST_F(SimulatorTest, AHalfDuplexDriveSharesItsTime) {
  const int32_t plan = AddPlan({{kDiskRead, 8}, {kDiskWrite, 4}}, 1);
  EXPECT_DOUBLE_EQ(Run({plan}).seconds, 4);  // 2 s each alone
  profile_.nvme_both = 6;                    // full duplex
  EXPECT_DOUBLE_EQ(Run({plan}).seconds, 2);
  profile_.nvme_both = 4;  // in between: both at two thirds of their own rates
  EXPECT_DOUBLE_EQ(Run({plan}).seconds, 3);
  profile_.nvme_both = 1.5;  // they disturb each other, and neither when alone
  EXPECT_DOUBLE_EQ(Run({plan}).seconds, 8);
  EXPECT_DOUBLE_EQ(Run({AddPlan({{kDiskRead, 8}}, 0)}).seconds, 2);
}

TEST_F(SimulatorTest, WaitsAndLaneOrderHoldOperationsBack) {
  // The copy in waits at the head of its lane, and the third copy behind it.
  const Forecast forecast = Run(
      {AddPlan({{kCompute, 300}, {kIn, 10, {0}}, {kIn, 10}, {kCompute, 100, {2}}}, 3)});
  EXPECT_DOUBLE_EQ(forecast.spans[1].begin_seconds, 3);
  EXPECT_DOUBLE_EQ(forecast.spans[2].begin_seconds, 4);
  EXPECT_DOUBLE_EQ(forecast.spans[3].begin_seconds, 5);
  EXPECT_DOUBLE_EQ(forecast.seconds, 6);
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kIn).stall_seconds, 2);
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kCompute).busy_seconds, 4);
}

TEST_F(SimulatorTest, OverheadTakesTimeButNoBandwidth) {
  profile_.op_overhead_seconds = 1;
  // Out begins its bytes at 1 s; in pays its second overhead while out has the link
  // alone.
  const Forecast forecast = Run({AddPlan({{kIn, 8}, {kIn, 10}, {kOut, 34}}, 2)});
  EXPECT_DOUBLE_EQ(forecast.spans[0].end_seconds, 2);  // 8 bytes at 8
  EXPECT_DOUBLE_EQ(forecast.spans[1].end_seconds, 4.25);
  // 8 bytes until 2 s, 10 until 3 s, 10 with the other until 4.25 s, 6 alone.
  EXPECT_DOUBLE_EQ(forecast.spans[2].end_seconds, 4.85);
}

TEST_F(SimulatorTest, APlanEndsWithItsResultsAndItsTailOverlapsTheNext) {
  const int32_t plan = AddPlan({{kCompute, 100}, {kOut, 30, {0}}}, 0);
  AddLink(plan, plan, {{0, 1}});
  // Each step: compute for 1 s once the 3 s of the copy before are over.
  EXPECT_DOUBLE_EQ(Run({plan}).seconds, 1);
  const Forecast second = Run({plan, plan});
  EXPECT_DOUBLE_EQ(second.seconds, 4);
  EXPECT_DOUBLE_EQ(LaneOf(second, kOut).stall_seconds, 3);
  EXPECT_DOUBLE_EQ(LaneOf(second, kOut).busy_seconds, 3);  // of the plan before
  EXPECT_EQ(LaneOf(second, kOut).bytes, 30);
  EXPECT_DOUBLE_EQ(second.spans[0].begin_seconds, 3);
}

TEST_F(SimulatorTest, AThirdPlanWaitsUntilTheFirstIsComplete) {
  const int32_t plan = AddPlan({{kCompute, 100}, {kOut, 100, {0}}}, 0);
  AddLink(plan, plan, {});
  // The first: computes until 1 s, copies until 11 s. The second: computes until 2 s.
  // The third: starts at 11 s, ends at 12 s.
  const Forecast third = Run({plan, plan, plan});
  EXPECT_DOUBLE_EQ(third.seconds, 10);
  EXPECT_DOUBLE_EQ(LaneOf(third, kCompute).stall_seconds, 9);  // nobody's wait
}

TEST_F(SimulatorTest, StallsAreChargedToTheLastWait) {
  const Forecast forecast = Run({AddPlan(
      {{kIn, 10}, {kDiskRead, 12}, {kCompute, 100, {0, 1}}, {kOut, 20, {2}}}, 3)});
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kIn).stall_seconds, 0);
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kDiskRead).stall_seconds, 3);
  EXPECT_DOUBLE_EQ(LaneOf(forecast, kOut).stall_seconds, 2);  // the results
  EXPECT_DOUBLE_EQ(forecast.seconds, 6);
}

TEST(CostOf, UpdatesCostTheirBytesOfMemory) {
  PlanSet set;
  Plan plan;
  const Access access{
      Operand::kWeights, AccessMode::kRead, TierKind::kDevice, 0, 100, {}};
  plan.accesses = {access, access};
  const MachineProfile profile = HandProfile();
  Op op{.code = OpCode::kUpdate, .lane = kCompute, .access_count = 2};
  // 200 bytes at 50 take as long as 400 FLOP at 100.
  EXPECT_DOUBLE_EQ(CostOf(set, plan, op, profile).work, 400);
  EXPECT_DOUBLE_EQ(CostOf(set, plan, op, profile).host_bytes, 0);
  op.lane = kCpu;
  EXPECT_DOUBLE_EQ(CostOf(set, plan, op, profile).work, 200);
  EXPECT_DOUBLE_EQ(CostOf(set, plan, op, profile).host_bytes, 200);
  op.code = OpCode::kCopy;
  op.lane = kIn;
  EXPECT_DOUBLE_EQ(CostOf(set, plan, op, profile).work, 100);
}

TEST_F(SimulatorTest, TheFloorIsTheBusiestResource) {
  const int32_t link = AddPlan({{kIn, 80}, {kOut, 160}, {kCompute, 100}}, 1);
  EXPECT_DOUBLE_EQ(FloorSeconds(set_, set_.plans[link], profile_), 18);
  const int32_t drive = AddPlan({{kDiskRead, 80}, {kDiskWrite, 40}, {kIn, 80}}, 1);
  EXPECT_DOUBLE_EQ(FloorSeconds(set_, set_.plans[drive], profile_), 40);
  profile_.host_memory = 4;
  EXPECT_DOUBLE_EQ(FloorSeconds(set_, set_.plans[drive], profile_), 50);
}

// Laws on plans as they are compiled.
class CompiledPlans : public testing::TestWithParam<uint32_t> {
 protected:
  void SetUp() override {
    std::mt19937 random(GetParam());
    const StepTrace trace = RandomTrace(random, 5);
    const Decisions decisions = RandomDecisions(random, trace);
    const std::vector<PlanKey> keys =
        PlanKeys(trace, decisions, {{trace.micro_batches}, false});
    auto compiled = CompilePlanSet(trace, decisions, keys);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    set_ = *std::move(compiled);
  }
  // A first step and `steps` of those that follow it.
  std::vector<int32_t> Steps(int32_t steps) const {
    const int32_t steady = set_.links.front().second;
    std::vector<int32_t> sequence = {set_.links.front().first};
    for (int32_t step = 0; step < steps; ++step) {
      if (set_.FindLink(sequence.back(), steady) >= 0) sequence.push_back(steady);
    }
    return sequence;
  }
  PlanSet set_;
  MachineProfile profile_;
};

TEST_P(CompiledPlans, BusyAndStalledComputeTimeAddUpToTheStep) {
  for (const int32_t steps : {0, 1, 3}) {
    const Forecast forecast = Simulate(set_, Steps(steps), profile_);
    double total = forecast.lanes[static_cast<size_t>(kCompute)].busy_seconds;
    for (const LaneForecast& lane : forecast.lanes) total += lane.stall_seconds;
    EXPECT_NEAR(total, forecast.seconds, 1e-9 * forecast.seconds);
  }
}

TEST_P(CompiledPlans, OperationsComeAfterTheirWaitsAndOneByOneInTheirLane) {
  const std::vector<int32_t> sequence = Steps(0);
  const Forecast forecast = Simulate(set_, sequence, profile_);
  const Plan& plan = set_.plans[static_cast<size_t>(sequence.back())];
  std::array<double, kLaneCount> lane_end{};
  for (size_t op = 0; op < plan.ops.size(); ++op) {
    const OpSpan& span = forecast.spans[op];
    for (const uint32_t wait : plan.Waits(plan.ops[op])) {
      EXPECT_LE(forecast.spans[wait].end_seconds, span.begin_seconds);
    }
    double& end = lane_end[static_cast<size_t>(plan.ops[op].lane)];
    EXPECT_LE(end, span.begin_seconds);
    end = span.end_seconds;
  }
}

TEST_P(CompiledPlans, NothingIsFasterThanTheFloor) {
  const std::vector<int32_t> sequence = Steps(0);
  const Forecast forecast = Simulate(set_, sequence, profile_);
  double end = 0;
  for (const OpSpan& span : forecast.spans) end = std::max(end, span.end_seconds);
  const Plan& plan = set_.plans[static_cast<size_t>(sequence.back())];
  EXPECT_GE(end, FloorSeconds(set_, plan, profile_));
}

INSTANTIATE_TEST_SUITE_P(Seeds, CompiledPlans, testing::Range(0u, 20u));

}  // namespace
}  // namespace strata
