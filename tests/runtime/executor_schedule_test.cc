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
// there.
void RunSequence(const PlanSet& set, Mode mode, uint32_t seed) {
  std::mt19937 random(seed);
  Machine machine(set, mode, seed);
  ListReference reference(set);
  absl::Status status = reference.Fill(random, *machine.executor);
  ASSERT_TRUE(status.ok()) << status;
  int32_t last = -1;
  for (int run = 0; run < 5; ++run) {
    if (random() % 6 == 0) {
      ASSERT_TRUE(machine.executor->Drain().ok());
      last = -1;
    }
    std::vector<int32_t> next;
    for (int32_t plan = 0; plan < static_cast<int32_t>(set.plans.size()); ++plan) {
      if (last < 0 || set.FindLink(last, plan) >= 0) next.push_back(plan);
    }
    last = next[random() % next.size()];
    const auto report = machine.executor->Run(last);
    ASSERT_TRUE(report.ok()) << report.status();
    reference.Run(last);
  }
  ASSERT_TRUE(machine.executor->Drain().ok());
  status = reference.Compare(*machine.executor);
  ASSERT_TRUE(status.ok()) << status << ", seed " << seed;
}

TEST(ExecutorSchedule, AThousandRandomSchedulesGiveTheBytesOfListOrder) {
  for (uint32_t plans = 0; plans < 50; ++plans) {
    const PlanSet set = RandomPlanSet(plans);
    for (uint32_t schedule = 0; schedule < 20; ++schedule) {
      RunSequence(set, Mode::kManual, plans * 20 + schedule);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ExecutorSchedule, WorkerThreadsAndALateStoreGiveTheBytesOfListOrder) {
  for (uint32_t plans = 0; plans < 40; ++plans) {
    const PlanSet set = RandomPlanSet(plans);
    RunSequence(set, Mode::kThreads, plans);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace strata
