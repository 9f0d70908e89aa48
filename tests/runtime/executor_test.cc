#include "runtime/plan/executor.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/device/cpu_device.h"
#include "runtime/plan/plan_index.h"
#include "tests/support/memory_store.h"
#include "tests/support/plan_builder.h"
#include "tests/support/schedule_clock.h"

namespace strata {
namespace {

using Mode = CpuDeviceOptions::Mode;
using StoreMode = MemoryStore::Mode;
using StoreLane = MemoryStore::LaneKind;

int64_t& NumberAt(std::byte* data) { return *reinterpret_cast<int64_t*>(data); }

// Adds the layer's number plus one; fails where it is told to.
class AddRunner final : public OperationRunner {
 public:
  absl::Status Run(const OpCall& call, Stream&) override {
    last_run = call.run;
    if (call.op.layer == failing_layer) return absl::DataLossError("planned");
    NumberAt(call.At(Operand::kInput)) += call.op.layer + 1;
    return absl::OkStatus();
  }
  int32_t failing_layer = -1;
  std::atomic<uint64_t> last_run = 0;
};

// nvme -> host -> device, +1 there, -> host, +2 on the CPU -> nvme.
PlanSet RoundTrip() {
  PlanBuilder builder({"first", "second"});
  builder.AddTransfer(OpCode::kRead, Lane::kNvmeRead, NvmePage(0), HostPage(0), {});
  builder.AddTransfer(OpCode::kCopy, Lane::kHostToDevice, HostPage(0), DevicePage(0),
                      {0});
  builder.AddTask(Lane::kCompute, 0, DevicePage(0), {1});
  builder.AddTransfer(OpCode::kCopy, Lane::kDeviceToHost, DevicePage(0), HostPage(1),
                      {2});
  builder.AddTask(Lane::kCpu, 1, HostPage(1), {3});
  builder.AddTransfer(OpCode::kWrite, Lane::kNvmeWrite, HostPage(1), NvmePage(0), {4});
  return builder.Build({{0, 5}}, 5);
}

// A schedule clock that lets the test look in, once, when the executor first idles.
class ProbeClock final : public Clock {
 public:
  explicit ProbeClock(ScheduleClock schedule) : schedule_(std::move(schedule)) {}
  double Seconds() override { return schedule_.Seconds(); }
  void Idle(int32_t rounds) override {
    if (once == nullptr) return schedule_.Idle(rounds);
    std::exchange(once, nullptr)();
  }
  std::function<void()> once;

 private:
  ScheduleClock schedule_;
};

// A machine of CPU devices in one mode, and an executor on it. In manual mode the store
// is manual too.
struct Machine {
  explicit Machine(PlanSet plans, Mode mode = Mode::kManual)
      : set(std::move(plans)),
        device(CreateCpuDevice(
            {.device_bytes = kMiB, .pinned_host_bytes = kMiB, .mode = mode})),
        host(CreateCpuDevice({.mode = mode})),
        store(kMiB, mode == Mode::kManual ? StoreMode::kManual : StoreMode::kImmediate),
        clock(ScheduleClock(1, {device.get(), host.get()}, &store)) {
    auto made = Executor::Create(
        set, {.device = device.get(),
              .host_device = host.get(),
              .store = &store,
              .runner = &runner,
              .clock = mode == Mode::kManual ? &clock : &Clock::Real()});
    EXPECT_TRUE(made.ok()) << made.status();
    executor = *std::move(made);
  }

  int64_t Read(const Extent& extent) {
    std::array<std::byte, kPage> page;
    const absl::Status status = executor->ReadHome(extent, page);
    EXPECT_TRUE(status.ok()) << status;
    return NumberAt(page.data());
  }
  void Write(const Extent& extent, int64_t number) {
    std::array<std::byte, kPage> page = {};
    NumberAt(page.data()) = number;
    const absl::Status status = executor->WriteHome(extent, page);
    EXPECT_TRUE(status.ok()) << status;
  }

  PlanSet set;
  std::unique_ptr<CpuDevice> device, host;
  MemoryStore store;
  AddRunner runner;
  ProbeClock clock;
  std::unique_ptr<Executor> executor;
};

TEST(Executor, MovesAndComputesThroughAllTiers) {
  for (const Mode mode : {Mode::kManual, Mode::kThreads}) {
    Machine machine(RoundTrip(), mode);
    machine.Write(NvmePage(0), 100);
    for (uint64_t run = 1; run <= 5; ++run) {
      const auto report = machine.executor->Run(0);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(machine.runner.last_run, run);
    }
    ASSERT_TRUE(machine.executor->Drain().ok());
    EXPECT_EQ(machine.Read(NvmePage(0)), 115);
  }
}

TEST(Executor, HomesOfAllTiersReadAsTheyWereWritten) {
  Machine machine(RoundTrip());
  for (const Extent& extent : {DevicePage(0), HostPage(1), NvmePage(0)}) {
    machine.Write(extent, 7 + extent.offset);
    EXPECT_EQ(machine.Read(extent), 7 + extent.offset) << Name(extent.tier);
  }
  EXPECT_EQ(machine.executor->allocated_bytes(),
            (TierBytes{.device = kPage, .host = 2 * kPage, .nvme = kPage}));
}

TEST(Executor, TellsTheStoreWhichMemoryItsTransfersTouch) {
  Machine machine(RoundTrip());
  // Both pages of the arena, next to each other.
  ASSERT_EQ(machine.store.registered().size(), 1u);
  const std::span<std::byte> range = machine.store.registered().front();
  EXPECT_EQ(range.data(), machine.executor->host_memory());
  EXPECT_EQ(range.size(), static_cast<size_t>(2 * kPage));
  machine.executor = nullptr;
  EXPECT_TRUE(machine.store.registered().empty());
}

TEST(NvmeHostRanges, LeaveOutWhatNoTransferComesNear) {
  constexpr int64_t kFar = 1000 * kNvmeRangeGapBytes;
  PlanBuilder builder({"layer"});
  const auto host = [](int64_t offset) {
    return Extent{TierKind::kHost, offset, kPage};
  };
  builder.AddTransfer(OpCode::kRead, Lane::kNvmeRead, NvmePage(0), host(kFar), {});
  builder.AddTransfer(OpCode::kCopy, Lane::kHostToDevice, host(kFar / 2), DevicePage(0),
                      {0});
  builder.AddTransfer(OpCode::kWrite, Lane::kNvmeWrite, host(0), NvmePage(1), {1});
  const std::vector<HostRange> ranges = NvmeHostRanges(builder.Build({{0, 2}}, 2));
  ASSERT_EQ(ranges.size(), 2u);
  EXPECT_EQ(ranges[0].begin, 0);
  EXPECT_EQ(ranges[0].end, kPage);
  EXPECT_EQ(ranges[1].begin, kFar);
  EXPECT_EQ(ranges[1].end, kFar + kPage);
}

TEST(Executor, RefusesAStoreThatIsSmallerThanThePlans) {
  const Machine machine(RoundTrip());
  MemoryStore store(0, StoreMode::kManual);
  AddRunner runner;
  const auto executor =
      Executor::Create(machine.set, {.device = machine.device.get(),
                                     .host_device = machine.host.get(),
                                     .store = &store,
                                     .runner = &runner});
  EXPECT_EQ(executor.status().message(),
            "the plans need 4096 B of nvme and the store holds 0 B");
}

TEST(Executor, RefusesArenasThatTheDeviceDoesNotHold) {
  PlanBuilder builder({"first"});
  builder.AddTask(Lane::kCompute, 0, DevicePage(256), {});
  const PlanSet set = builder.Build({}, 0);
  const Machine machine(RoundTrip());
  AddRunner runner;
  const auto executor =
      Executor::Create(set, {.device = machine.device.get(), .runner = &runner});
  EXPECT_EQ(executor.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Executor, KeepsSeveralTransfersOfAStoreInFlight) {
  PlanBuilder builder({"first"});
  builder.AddTransfer(OpCode::kRead, Lane::kNvmeRead, NvmePage(0), HostPage(0), {});
  builder.AddTransfer(OpCode::kRead, Lane::kNvmeRead, NvmePage(1), HostPage(1), {});
  builder.AddTransfer(OpCode::kRead, Lane::kNvmeRead, NvmePage(1), HostPage(0), {0});
  Machine machine(builder.Build({}, 2));
  machine.Write(NvmePage(0), 5);
  machine.Write(NvmePage(1), 6);
  int in_flight_count = 0;
  machine.clock.once = [&] {
    in_flight_count = machine.store.pending_count(StoreLane::kRead);
  };
  ASSERT_TRUE(machine.executor->Run(0).ok());
  EXPECT_EQ(in_flight_count, 2);
  ASSERT_TRUE(machine.executor->Drain().ok());
  EXPECT_EQ(machine.Read(HostPage(0)), 6);
}

// Streams of one device wait for each other by themselves; another device's cannot.
TEST(Executor, ChainsLanesOfOneDeviceAndHoldsBackThoseOfAnother) {
  Machine machine(RoundTrip());
  machine.Write(NvmePage(0), 10);
  const auto run_device_dry = [&] {
    int count = 0;
    for (auto runnable = machine.device->RunnableStreams(); !runnable.empty();
         runnable = machine.device->RunnableStreams(), ++count) {
      machine.device->RunOne(*runnable.front());
    }
    return count;
  };
  int without_read = -1, with_read = -1;
  size_t on_host = 1;
  machine.clock.once = [&] {
    without_read = run_device_dry();
    machine.store.RunAll();
    machine.clock.once = [&] {
      with_read = run_device_dry();
      on_host = machine.host->RunnableStreams().size();
    };
  };
  ASSERT_TRUE(machine.executor->Run(0).ok());
  EXPECT_EQ(without_read, 0);
  EXPECT_EQ(with_read, 3);  // to the device, the task, and back
  EXPECT_EQ(on_host, 0u);   // not before the executor has seen that it may
}

TEST(Executor, ReturnsWithTheResultsAndCompletesARunBeforeTheSecondAfterItBegins) {
  // The result is the device's; the host's task is the tail.
  PlanBuilder builder({"result", "tail"});
  builder.AddTask(Lane::kCompute, 0, DevicePage(0), {});
  builder.AddTask(Lane::kCpu, 1, HostPage(0), {});
  const PlanSet set = builder.Build({}, 0);
  struct Journal final : OperationRunner {
    absl::Status Run(const OpCall& call, Stream&) override {
      absl::StrAppend(&ran, call.op.layer == 0 ? "r" : "t", call.run, " ");
      return absl::OkStatus();
    }
    std::string ran;
  } journal;
  // The host's work happens only when the device has none.
  struct HostLast final : Clock {
    double Seconds() override { return 0; }
    void Idle(int32_t) override {
      CpuDevice* const chosen = device->RunnableStreams().empty() ? host : device;
      chosen->RunOne(*chosen->RunnableStreams().front());
    }
    CpuDevice *device, *host;
  } clock;
  const auto device = CreateCpuDevice(
      {.device_bytes = kMiB, .pinned_host_bytes = kMiB, .mode = Mode::kManual});
  const auto host = CreateCpuDevice({.mode = Mode::kManual});
  clock.device = device.get();
  clock.host = host.get();
  const auto executor = *Executor::Create(set, {.device = device.get(),
                                                .host_device = host.get(),
                                                .runner = &journal,
                                                .clock = &clock});
  ASSERT_TRUE(executor->Run(0).ok());
  EXPECT_EQ(journal.ran, "r1 ");
  ASSERT_TRUE(executor->Run(0).ok());
  EXPECT_EQ(journal.ran, "r1 r2 ");
  ASSERT_TRUE(executor->Run(0).ok());
  EXPECT_EQ(journal.ran, "r1 r2 t1 r3 ");
  ASSERT_TRUE(executor->Drain().ok());
  EXPECT_EQ(journal.ran, "r1 r2 t1 r3 t2 t3 ");
}

// Each operation of the round trip takes one second, one after the other.
TEST(Executor, ReportsWhatEachLaneDidAndWhatTheComputeLaneWaitedFor) {
  Machine machine(RoundTrip());
  machine.Write(NvmePage(0), 0);
  for (int run = 0; run < 2; ++run) {
    const auto report = machine.executor->Run(0);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->seconds, 6);
    for (int i = 0; i < kLaneCount; ++i) {
      const Lane lane = static_cast<Lane>(i);
      const LaneReport& found = report->lanes[static_cast<size_t>(i)];
      EXPECT_EQ(found.busy_seconds, lane == Lane::kCollective ? 0 : 1) << Name(lane);
      EXPECT_EQ(found.stall_seconds, lane == Lane::kHostToDevice ? 2
                                     : lane == Lane::kNvmeWrite  ? 3
                                                                 : 0)
          << Name(lane);
      const bool moves =
          lane != Lane::kCompute && lane != Lane::kCpu && lane != Lane::kCollective;
      EXPECT_EQ(found.bytes, moves ? kPage : 0) << Name(lane);
    }
  }
}

TEST(Executor, KeepsTheSpansOfTheLastRuns) {
  Machine machine(RoundTrip());
  machine.Write(NvmePage(0), 0);
  const double start = machine.clock.Seconds();
  for (int run = 0; run < 6; ++run) ASSERT_TRUE(machine.executor->Run(0).ok());
  const std::vector<TimelineSpan> timeline = machine.executor->Timeline();
  ASSERT_EQ(timeline.size(), 24u);  // four runs of six operations
  for (size_t i = 0; i < timeline.size(); ++i) {
    EXPECT_EQ(timeline[i].op, i % 6);
    EXPECT_EQ(timeline[i].begin_seconds, start + 12 + static_cast<double>(i));
    EXPECT_EQ(timeline[i].end_seconds, start + 13 + static_cast<double>(i));
  }
}

TEST(Executor, AFailingOperationIsNamedAndNothingHangs) {
  const std::string plan = ToString(PlanKey{});
  for (const Mode mode : {Mode::kManual, Mode::kThreads}) {
    for (const int32_t layer : {0, 1}) {
      Machine machine(RoundTrip(), mode);
      machine.Write(NvmePage(0), 0);
      ASSERT_TRUE(machine.executor->Run(0).ok());
      machine.runner.failing_layer = layer;
      const absl::Status status = machine.executor->Run(0).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
      EXPECT_EQ(status.message(),
                absl::StrCat(plan, layer == 0 ? ", compute lane, first/forward: planned"
                                              : ", cpu lane, second/forward: planned"));
      EXPECT_EQ(machine.executor->Run(0).status(), status);
      EXPECT_EQ(machine.executor->Drain(), status);
    }
  }
}

TEST(Executor, AFailingTransferOfTheStoreIsNamedAndNothingStaysInFlight) {
  for (const StoreLane lane : {StoreLane::kRead, StoreLane::kWrite}) {
    Machine machine(RoundTrip());
    machine.Write(NvmePage(0), 0);
    // Ticket 1 of the writes is the home's.
    machine.store.FailTicket(lane, lane == StoreLane::kRead ? 3 : 4,
                             absl::DataLossError("'first/weight': planned"));
    absl::Status status = absl::OkStatus();
    int run_count = 0;
    while (status.ok()) status = (++run_count, machine.executor->Run(0).status());
    EXPECT_EQ(run_count, 3);
    EXPECT_EQ(status.message(),
              absl::StrCat(ToString(PlanKey{}),
                           lane == StoreLane::kRead ? ", nvme-read" : ", nvme-write",
                           " lane: 'first/weight': planned"));
    EXPECT_EQ(machine.store.pending_count(StoreLane::kRead), 0);
    EXPECT_EQ(machine.store.pending_count(StoreLane::kWrite), 0);
    EXPECT_TRUE(machine.device->RunnableStreams().empty());
  }
}

TEST(Executor, AHomeThatWasNeverWrittenIsNamed) {
  PlanSet set = RoundTrip();
  set.layout.layers[1].weights = NvmePage(0);
  Machine machine(set);
  std::array<std::byte, kPage> page;
  const absl::Status status = machine.executor->ReadHome(NvmePage(0), page);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("second/weight"), absl::string_view::npos) << status;
}

}  // namespace
}  // namespace strata
