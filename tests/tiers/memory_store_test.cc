#include "tests/support/memory_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace strata {
namespace {

using LaneKind = MemoryStore::LaneKind;

struct alignas(Store::kAlignment) Page {
  std::array<std::byte, Store::kAlignment> bytes;
  explicit Page(uint8_t value) { bytes.fill(std::byte{value}); }
};

TEST(MemoryStore, GivesBackWhatWasWrittenAndRefusesTheRest) {
  MemoryStore store(16 * kKiB, MemoryStore::Mode::kImmediate);
  const Page source(7);
  Page target(0);
  EXPECT_EQ(store.Write(4096, source.bytes.data(), 4096, "a"), 1u);
  EXPECT_EQ(*store.WritesCompleted(), 1u);
  store.Read(4096, target.bytes.data(), 4096, "a");
  EXPECT_EQ(*store.ReadsCompleted(), 1u);
  EXPECT_EQ(source.bytes, target.bytes);
  store.Read(0, target.bytes.data(), 4096, "b");
  EXPECT_EQ(store.ReadsCompleted().status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(store.bytes_read(), 4096);
}

TEST(MemoryStore, CompletesInTicketOrderWhateverOrderTheTestRuns) {
  MemoryStore store(16 * kKiB, MemoryStore::Mode::kManual);
  const Page source(7);
  store.Write(0, source.bytes.data(), 4096, "a");
  store.Write(4096, source.bytes.data(), 4096, "b");
  store.Run(LaneKind::kWrite, 1);
  EXPECT_EQ(*store.WritesCompleted(), 0u);
  store.Run(LaneKind::kWrite, 0);
  EXPECT_EQ(*store.WritesCompleted(), 2u);
}

TEST(MemoryStore, FindsAFlippedBit) {
  MemoryStore store(4 * kKiB, MemoryStore::Mode::kImmediate);
  Page page(7);
  store.Write(0, page.bytes.data(), 4096, "a");
  store.Corrupt(100);
  store.Read(0, page.bytes.data(), 4096, "a");
  EXPECT_EQ(store.ReadsCompleted().status().code(), absl::StatusCode::kDataLoss);
}

TEST(MemoryStore, ReportsThePlannedErrorForEver) {
  MemoryStore store(8 * kKiB, MemoryStore::Mode::kImmediate);
  const Page page(7);
  store.FailTicket(LaneKind::kWrite, 1, absl::DataLossError("planned"));
  store.Write(0, page.bytes.data(), 4096, "a");
  store.Write(4096, page.bytes.data(), 4096, "b");
  EXPECT_EQ(store.WritesCompleted().status().message(), "planned");
  EXPECT_EQ(store.WritesCompleted().status().message(), "planned");
}

}  // namespace
}  // namespace strata
