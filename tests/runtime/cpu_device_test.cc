#include "runtime/device/cpu_device.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/device_conformance.h"

namespace strata {
namespace {

using Mode = CpuDeviceOptions::Mode;

std::unique_ptr<CpuDevice> Make(Mode mode) {
  return CreateCpuDevice(
      {.device_bytes = 16 * kMiB, .pinned_host_bytes = 32 * kMiB, .mode = mode});
}
std::unique_ptr<Device> MakeThreaded() { return Make(Mode::kThreads); }
std::unique_ptr<Device> MakeManual() { return Make(Mode::kManual); }

INSTANTIATE_TEST_SUITE_P(CpuThreads, DeviceConformance,
                         ::testing::Values(&MakeThreaded));
INSTANTIATE_TEST_SUITE_P(CpuManual, DeviceConformance, ::testing::Values(&MakeManual));

// Notes the order in which its tasks ran.
struct Journal {
  std::string ran;
  static absl::Status Note(void* journal, uint32_t index, Stream&) {
    static_cast<Journal*>(journal)->ran += static_cast<char>(index);
    return absl::OkStatus();
  }
  Task Entry(char name) {
    return {.run = &Note, .context = this, .index = static_cast<uint32_t>(name)};
  }
};

TEST(CpuDevice, RefusesWhatIsOverTheBudgetOfThatMemoryWithTheNumbers) {
  const auto device =
      CreateCpuDevice({.device_bytes = 3 * kMiB, .pinned_host_bytes = 2 * kMiB});
  const auto first = device->Allocate(MemoryKind::kDevice, 2 * kMiB);
  ASSERT_TRUE(first.ok());
  const auto second = device->Allocate(MemoryKind::kDevice, 2 * kMiB);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(second.status().message(),
            "allocate 2.00 MiB of device memory on cpu: only 1.00 MiB of its budget of "
            "3.00 MiB are free");
  EXPECT_TRUE(device->Allocate(MemoryKind::kPinnedHost, 2 * kMiB).ok());
  EXPECT_FALSE(device->Allocate(MemoryKind::kPinnedHost, 2 * kMiB + 1).ok());
}

TEST(CpuDevice, InManualModeNothingHappensBeforeTheTestSaysSo) {
  const auto device = Make(Mode::kManual);
  Journal journal;
  const auto stream = *device->CreateStream("a", 4);
  stream->Run(journal.Entry('1'));
  stream->Run(journal.Entry('2'));
  EXPECT_EQ(*stream->Completed(), 0u);
  EXPECT_EQ(journal.ran, "");
  ASSERT_EQ(device->RunnableStreams(), std::vector<Stream*>{stream.get()});
  device->RunOne(*stream);
  EXPECT_EQ(journal.ran, "1");
  EXPECT_EQ(*stream->Completed(), 1u);
  device->RunOne(*stream);
  EXPECT_TRUE(device->RunnableStreams().empty());
}

TEST(CpuDevice, AWaitingStreamIsNotRunnableUntilTheAwaitedWorkIsDone) {
  const auto device = Make(Mode::kManual);
  Journal journal;
  const auto a = *device->CreateStream("a", 4), b = *device->CreateStream("b", 4);
  a->Run(journal.Entry('a'));
  const Ticket second = a->Run(journal.Entry('A'));
  b->Wait(*a, second);
  b->Run(journal.Entry('b'));
  EXPECT_EQ(device->RunnableStreams(), std::vector<Stream*>{a.get()});
  device->RunOne(*a);
  EXPECT_EQ(device->RunnableStreams(), std::vector<Stream*>{a.get()});
  device->RunOne(*a);
  EXPECT_EQ(device->RunnableStreams(), std::vector<Stream*>{b.get()});
  device->RunOne(*b);
  EXPECT_EQ(journal.ran, "aAb");
}

TEST(CpuDevice, ManualModeReachesEveryLegalOrderAndNoOther) {
  std::set<std::string> orders;
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    const auto device = Make(Mode::kManual);
    Journal journal;
    const auto a = *device->CreateStream("a", 4), b = *device->CreateStream("b", 4);
    const Ticket first = a->Run(journal.Entry('a'));
    a->Run(journal.Entry('A'));
    b->Run(journal.Entry('b'));
    b->Wait(*a, first);
    b->Run(journal.Entry('B'));
    for (auto runnable = device->RunnableStreams(); !runnable.empty();
         runnable = device->RunnableStreams()) {
      device->RunOne(*runnable[random() % runnable.size()]);
    }
    orders.insert(journal.ran);
  }
  EXPECT_EQ(orders, (std::set<std::string>{"aAbB", "abAB", "abBA", "baAB", "baBA"}));
}

TEST(CpuDevice, WorkThatWaitsForFailedWorkFailsWithItsErrorAndDoesNotRun) {
  for (const Mode mode : {Mode::kThreads, Mode::kManual}) {
    const auto device = Make(mode);
    Journal journal;
    const auto a = *device->CreateStream("a", 4), b = *device->CreateStream("b", 4);
    const auto fail = [](void*, uint32_t, Stream&) -> absl::Status {
      return absl::DataLossError("broken");
    };
    const Ticket failed = a->Run({.run = fail});
    b->Wait(*a, failed);
    b->Run(journal.Entry('b'));
    EXPECT_EQ(b->Synchronize().message(), "broken");
    EXPECT_EQ(b->Completed().status().message(), "broken");
    EXPECT_EQ(journal.ran, "");
  }
}

TEST(CpuDevice, DestroyingAStreamCompletesItsWorkFirst) {
  for (const Mode mode : {Mode::kThreads, Mode::kManual}) {
    const auto device = Make(mode);
    Journal first, second;
    auto a = *device->CreateStream("a", 4), b = *device->CreateStream("b", 4);
    const Ticket ticket = a->Run(first.Entry('a'));
    b->Wait(*a, ticket);
    b->Run(second.Entry('b'));
    b.reset();
    EXPECT_EQ(second.ran, "b");
    EXPECT_EQ(first.ran, "a");
  }
}

// Six streams of random work that adds to what the streams before it left, against the
// same done one by one.
TEST(CpuDevice, RandomWaitsBetweenManyStreamsAreKept) {
  struct Cell {
    int64_t value = 1;
    Cell* from = nullptr;
    static absl::Status Add(void* cell, uint32_t index, Stream&) {
      Cell& self = *static_cast<Cell*>(cell);
      self.value = self.value * 31 + self.from->value + index;
      return absl::OkStatus();
    }
  };
  constexpr int kStreams = 6, kOperations = 2000;
  std::mt19937 random(7);
  const auto device = Make(Mode::kThreads);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(*device->CreateStream("s", 8));
  }
  std::vector<Cell> cells(kOperations);
  std::vector<std::pair<int, Ticket>> where(kOperations);
  for (int i = 0; i < kOperations; ++i) {
    const int from =
        i == 0 ? 0 : std::max<int>(0, i - 1 - static_cast<int>(random() % 9));
    cells[i].from = &cells[from];
    const int stream = static_cast<int>(random() % kStreams);
    streams[stream]->Wait(*streams[where[from].first], where[from].second);
    where[i] = {stream, streams[stream]->Run({.run = &Cell::Add,
                                              .context = &cells[i],
                                              .index = static_cast<uint32_t>(i)})};
  }
  for (const auto& stream : streams) ASSERT_TRUE(stream->Synchronize().ok());
  std::vector<Cell> expected(kOperations);
  for (int i = 0; i < kOperations; ++i) {
    expected[i].from = &expected[cells[i].from - cells.data()];
    ASSERT_TRUE(Cell::Add(&expected[i], static_cast<uint32_t>(i), *streams[0]).ok());
    EXPECT_EQ(cells[i].value, expected[i].value) << i;
  }
}

}  // namespace
}  // namespace strata
