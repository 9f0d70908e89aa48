// Law 8: in every legal schedule an executor leaves the bytes that list order leaves.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/device/cpu_device.h"
#include "runtime/plan/compile.h"
#include "runtime/plan/executor.h"
#include "tests/support/list_reference.h"
#include "tests/support/memory_store.h"
#include "tests/support/random_plans.h"
#include "tests/support/schedule_clock.h"

namespace strata {
namespace {

using Mode = CpuDeviceOptions::Mode;

PlanSet RandomPlanSet(uint32_t seed) {
  std::mt19937 random(seed);
  const StepTrace trace = RandomTrace(random, 4);
  const Decisions decisions = RandomDecisions(random, trace);
  const PlanSetOptions options{{trace.micro_batches}, true};
  auto set = CompilePlanSet(trace, decisions, PlanKeys(trace, decisions, options));
  EXPECT_TRUE(set.ok()) << set.status();
  return *std::move(set);
}

// Real time, while requests of a manual store happen in random order and late.
class LateStoreClock final : public Clock {
 public:
  LateStoreClock(uint32_t seed, MemoryStore* store) : late_(seed, {}, store) {}
  double Seconds() override { return Clock::Real().Seconds(); }
  void Idle(int32_t rounds) override {
    if (rounds % 3 == 0) late_.RunOne();
    std::this_thread::yield();
  }

 private:
  ScheduleClock late_;
};

struct Machine {
  Machine(const PlanSet& set, Mode mode, uint32_t seed)
      : device(CreateCpuDevice({.device_bytes = set.arena_bytes.device,
                                .pinned_host_bytes = set.arena_bytes.host,
                                .mode = mode})),
        host(CreateCpuDevice({.mode = mode})),
        store(set.arena_bytes.nvme, MemoryStore::Mode::kManual),
        schedule(seed, {device.get(), host.get()}, &store),
        late_store(seed, &store) {
    const bool one_device = seed % 3 == 0;
    auto made = Executor::Create(
        set,
        {.device = device.get(),
         .host_device = one_device ? device.get() : host.get(),
         .store = &store,
         .runner = &runner,
         .clock = mode == Mode::kManual ? static_cast<Clock*>(&schedule) : &late_store,
         .lane_depth = static_cast<int32_t>(1 + seed % 7)});
    EXPECT_TRUE(made.ok()) << made.status();
    executor = *std::move(made);
  }

  std::unique_ptr<CpuDevice> device, host;
  MemoryStore store;
  HashRunner runner;
  ScheduleClock schedule;
  LateStoreClock late_store;
  std::unique_ptr<Executor> executor;
};

// Runs a random sequence of plans that may follow each other, with a drain here and
// there, and compares all tiers with list order.
absl::Status RunSequence(const PlanSet& set, Mode mode, uint32_t seed) {
  std::mt19937 random(seed);
  Machine machine(set, mode, seed);
  ListReference reference(set);
  STRATA_RETURN_IF_ERROR(reference.Fill(random, *machine.executor));
  int32_t last = -1;
  for (int run = 0; run < 5; ++run) {
    if (random() % 6 == 0) {
      STRATA_RETURN_IF_ERROR(machine.executor->Drain());
      last = -1;
    }
    std::vector<int32_t> next;
    for (int32_t plan = 0; plan < static_cast<int32_t>(set.plans.size()); ++plan) {
      if (last < 0 || set.FindLink(last, plan) >= 0) next.push_back(plan);
    }
    last = next[random() % next.size()];
    STRATA_RETURN_IF_ERROR(machine.executor->Run(last).status());
    reference.Run(last);
  }
  STRATA_RETURN_IF_ERROR(machine.executor->Drain());
  return reference.Compare(*machine.executor);
}

// The first plan once, in one schedule.
absl::Status RunOnce(const PlanSet& set, uint32_t seed) {
  std::mt19937 random(seed);
  Machine machine(set, Mode::kManual, seed);
  ListReference reference(set);
  STRATA_RETURN_IF_ERROR(reference.Fill(random, *machine.executor));
  STRATA_RETURN_IF_ERROR(machine.executor->Run(0).status());
  reference.Run(0);
  STRATA_RETURN_IF_ERROR(machine.executor->Drain());
  return reference.Compare(*machine.executor);
}

TEST(ExecutorSchedule, AThousandRandomSchedulesGiveTheBytesOfListOrder) {
  for (uint32_t plans = 0; plans < 50; ++plans) {
    const PlanSet set = RandomPlanSet(plans);
    for (uint32_t schedule = 0; schedule < 20; ++schedule) {
      const uint32_t seed = plans * 20 + schedule;
      const absl::Status status = RunSequence(set, Mode::kManual, seed);
      ASSERT_TRUE(status.ok()) << status << ", plans " << plans << ", seed " << seed;
    }
  }
}

TEST(ExecutorSchedule, WorkerThreadsAndALateStoreGiveTheBytesOfListOrder) {
  for (uint32_t plans = 0; plans < 40; ++plans) {
    const absl::Status status =
        RunSequence(RandomPlanSet(plans), Mode::kThreads, plans);
    ASSERT_TRUE(status.ok()) << status << ", plans " << plans;
  }
}

// Of the waits of streams for streams: conflicts in a MemoryStore abort.
std::vector<uint32_t> OpsThatWaitInStreams(const Plan& plan) {
  std::vector<uint32_t> found;
  for (uint32_t op = 0; op < plan.ops.size(); ++op) {
    bool in_streams = RunsOneByOne(plan.ops[op].lane) && plan.ops[op].wait_count > 0;
    for (const uint32_t wait : plan.Waits(plan.ops[op])) {
      in_streams &= RunsOneByOne(plan.ops[wait].lane);
    }
    if (in_streams) found.push_back(op);
  }
  return found;
}

// The tests above can fail: without the waits of one operation some schedule goes
// wrong.
TEST(ExecutorSchedule, AMissingWaitShows) {
  int mutant_count = 0, wrong_count = 0;
  for (uint32_t plans = 0; plans < 12; ++plans) {
    const PlanSet set = RandomPlanSet(plans);
    const std::vector<uint32_t> candidates = OpsThatWaitInStreams(set.plans[0]);
    for (size_t i = 0; i < candidates.size(); i += 3) {
      PlanSet mutant = set;
      mutant.plans.resize(1);
      mutant.links.clear();
      mutant.plans[0].ops[candidates[i]].wait_count = 0;
      absl::Status status = absl::OkStatus();
      for (uint32_t seed = 0; seed < 20 && status.ok(); ++seed) {
        status = RunOnce(mutant, seed);
      }
      ++mutant_count;
      wrong_count += !status.ok();
    }
  }
  EXPECT_GT(wrong_count, mutant_count * 4 / 5);
}

}  // namespace
}  // namespace strata
