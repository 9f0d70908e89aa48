#include "tiers/checksum_table.h"

#include <gtest/gtest.h>

#include <string>

namespace strata {
namespace {

TEST(ChecksumTable, KeepsAsManyOffsetsAsPromisedAndNoMore) {
  constexpr int64_t kCount = 1000;
  ChecksumTable table(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    ChecksumTable::Entry* entry = table.BeginWrite(i * 4096, 4096 + i);
    ASSERT_NE(entry, nullptr);
    entry->checksum = static_cast<uint32_t>(i);
  }
  EXPECT_EQ(table.BeginWrite(kCount * 4096, 4096), nullptr);
  EXPECT_EQ(table.Find(kCount * 4096), nullptr);
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_NE(table.Find(i * 4096), nullptr);
    EXPECT_EQ(table.Find(i * 4096)->checksum, static_cast<uint32_t>(i));
    EXPECT_EQ(table.Find(i * 4096)->size_bytes, 4096 + i);
  }
  EXPECT_NE(table.BeginWrite(0, 8192), nullptr);  // an old offset still has room
}

TEST(ChecksumTable, EachWriteIsANewGeneration) {
  ChecksumTable table(10);
  EXPECT_EQ(table.Find(0), nullptr);
  const uint32_t first = table.BeginWrite(0, 4096)->generation;
  EXPECT_EQ(table.Find(0)->state, ChecksumTable::State::kBeingWritten);
  EXPECT_NE(table.BeginWrite(0, 4096)->generation, first);
}

TEST(ChunkChecksum, DependsOnOffsetGenerationAndBytes) {
  const std::string text = "the same bytes";
  const auto bytes = std::as_bytes(std::span(text));
  const uint32_t checksum = ChunkChecksum(4096, 1, bytes);
  EXPECT_EQ(ChunkChecksum(4096, 1, bytes), checksum);
  EXPECT_NE(ChunkChecksum(8192, 1, bytes), checksum);
  EXPECT_NE(ChunkChecksum(4096, 2, bytes), checksum);
  EXPECT_NE(ChunkChecksum(4096, 1, bytes.first(5)), checksum);
}

}  // namespace
}  // namespace strata
