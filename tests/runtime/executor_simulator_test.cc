// The simulator and the executor run the same plans: on a paced machine they agree to
// rounding, in every number that they report.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/plan/compile.h"
#include "runtime/plan/executor.h"
#include "runtime/plan/simulator.h"
#include "tests/support/paced_machine.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

using Devices = PacedMachine::Devices;

PlanSet RandomPlanSet(std::mt19937& random) {
  const StepTrace trace = RandomTrace(random, 6);
  const Decisions decisions = RandomDecisions(random, trace);
  const PlanSetOptions options{{trace.micro_batches, 1}, true};
  auto set = CompilePlanSet(trace, decisions, PlanKeys(trace, decisions, options));
  EXPECT_TRUE(set.ok()) << set.status();
  return *std::move(set);
}

// Rates at which the small random plans keep all lanes busy, each in turn the slowest.
MachineProfile RandomProfile(std::mt19937& random) {
  std::uniform_real_distribution<double> scale(0.2, 5);
  MachineProfile profile;
  profile.compute_flops = 1e14 * scale(random);
  profile.device_memory = 1e9 * scale(random);
  profile.host_to_device = profile.device_to_host = 1e8 * scale(random);
  profile.both_directions = profile.host_to_device * (1.2 + 0.15 * scale(random));
  profile.host_memory = 3e8 * scale(random);
  profile.cpu_update = 0.95 * profile.host_memory;
  profile.cpu_advance = profile.cpu_update * (0.5 + 0.1 * scale(random));
  profile.nvme_read = 5e7 * scale(random);
  profile.nvme_write = 5e7 * scale(random);
  profile.nvme_both = (profile.nvme_read + profile.nvme_write) * 0.5 *
                      (random() % 2 == 0 ? 1.0 : 0.3 * scale(random) + 0.6);
  profile.op_overhead_seconds = 1e-6 * scale(random);
  return profile;
}

std::vector<int32_t> RandomSequence(std::mt19937& random, const PlanSet& set) {
  std::vector<int32_t> sequence;
  for (size_t length = 1 + random() % 5; sequence.size() < length;) {
    const auto plan = static_cast<int32_t>(random() % set.plans.size());
    if (sequence.empty() || set.FindLink(sequence.back(), plan) >= 0) {
      sequence.push_back(plan);
    }
  }
  return sequence;
}

void ExpectEqual(const PlanSet& set, const MachineProfile& profile,
                 const std::vector<int32_t>& sequence, uint32_t seed) {
  PacedMachine machine(set, profile);
  // How the executor submits must not show in what it reports.
  ExecutorOptions options =
      machine.Options(seed % 2 == 0 ? Devices::kOne : Devices::kTwo);
  options.lane_depth = static_cast<int32_t>(1 + seed % 5);
  const auto executor = *Executor::Create(set, options);
  StepReport report;
  double begin = 0;
  for (const int32_t plan : sequence) {
    begin = machine.Seconds();
    const auto run = executor->Run(plan);
    ASSERT_TRUE(run.ok()) << run.status();
    report = *run;
  }
  const double rounding = 1e-12 * machine.Seconds();
  ASSERT_TRUE(executor->Drain().ok());
  const Forecast forecast = Simulate(set, sequence, profile);

  EXPECT_NEAR(report.seconds, forecast.seconds, rounding);
  double compute_seconds = 0;
  for (int i = 0; i < kLaneCount; ++i) {
    const LaneReport& ran = report.lanes[static_cast<size_t>(i)];
    const LaneForecast& foreseen = forecast.lanes[static_cast<size_t>(i)];
    const char* const lane = Name(static_cast<Lane>(i));
    EXPECT_NEAR(ran.busy_seconds, foreseen.busy_seconds, rounding) << lane;
    EXPECT_NEAR(ran.stall_seconds, foreseen.stall_seconds, rounding) << lane;
    EXPECT_EQ(ran.bytes, foreseen.bytes) << lane;
    compute_seconds += ran.stall_seconds;
  }
  compute_seconds += report.lanes[static_cast<size_t>(Lane::kCompute)].busy_seconds;
  EXPECT_NEAR(compute_seconds, report.seconds, rounding);

  const size_t op_count = forecast.spans.size();
  const std::vector<TimelineSpan> timeline = executor->Timeline();
  ASSERT_GE(timeline.size(), op_count);
  for (size_t i = timeline.size() - op_count; i < timeline.size(); ++i) {
    const TimelineSpan& ran = timeline[i];
    const OpSpan& foreseen = forecast.spans[ran.op];
    EXPECT_NEAR(ran.begin_seconds - begin, foreseen.begin_seconds, rounding) << ran.op;
    EXPECT_NEAR(ran.end_seconds - begin, foreseen.end_seconds, rounding) << ran.op;
  }
}

TEST(ExecutorAndSimulator, AgreeOnTimeBusyStallsBytesAndSpansOfTwoHundredPlanSets) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const PlanSet set = RandomPlanSet(random);
    const MachineProfile profile = RandomProfile(random);
    ExpectEqual(set, profile, RandomSequence(random, set), seed);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace strata
