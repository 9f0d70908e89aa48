/// What every Device promises, as tests. A device joins with
///   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, testing::Values(&MakeDevice));
/// where MakeDevice gives one with at least 16 MiB of each memory, or null where the
/// machine has none.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/types.h"
#include "runtime/device/device.h"

namespace strata {

class DeviceConformance
    : public ::testing::TestWithParam<std::unique_ptr<Device> (*)()> {
 protected:
  void SetUp() override {
    device_ = GetParam()();
    if (device_ == nullptr) GTEST_SKIP() << "this machine has no such device";
  }
  std::unique_ptr<Stream> MakeStream(int32_t depth = 16) {
    auto stream = device_->CreateStream("test", depth);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }
  Buffer Make(MemoryKind kind, int64_t size_bytes) {
    auto buffer = device_->Allocate(kind, size_bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }
  Buffer Filled(int64_t size_bytes, uint8_t value) {
    Buffer buffer = Make(MemoryKind::kPinnedHost, size_bytes);
    std::fill_n(buffer.data(), size_bytes, std::byte{value});
    return buffer;
  }
  static bool AllEqual(const Buffer& buffer, uint8_t value) {
    return std::all_of(buffer.bytes().begin(), buffer.bytes().end(),
                       [value](std::byte byte) { return byte == std::byte{value}; });
  }

  std::unique_ptr<Device> device_;
};

TEST_P(DeviceConformance, MemoryIsZeroedAlignedAndWritable) {
  for (const int64_t size_bytes : {int64_t{1}, int64_t{4097}, 3 * kMiB}) {
    const Buffer pinned = Make(MemoryKind::kPinnedHost, size_bytes);
    const Buffer memory = Make(MemoryKind::kDevice, size_bytes);
    EXPECT_EQ(pinned.size_bytes(), size_bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pinned.data()) % 4096, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 4096, 0u);
    EXPECT_TRUE(AllEqual(pinned, 0));
    Buffer copy = Filled(size_bytes, 9);
    const auto stream = MakeStream();
    stream->Copy(copy.data(), memory.data(), size_bytes);
    ASSERT_TRUE(stream->Synchronize().ok());
    EXPECT_TRUE(AllEqual(copy, 0));
  }
}

TEST_P(DeviceConformance, AnEmptyBufferNeedsNoMemory) {
  EXPECT_EQ(Make(MemoryKind::kDevice, 0).data(), nullptr);
}

TEST_P(DeviceConformance, AllocationBeyondMemoryIsRefusedWithTheSize) {
  const auto buffer = device_->Allocate(MemoryKind::kDevice, int64_t{1} << 50);
  EXPECT_EQ(buffer.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(buffer.status().message().find("1024.00 TiB"), absl::string_view::npos)
      << buffer.status();
}

TEST_P(DeviceConformance, FreedMemoryIsThereAgain) {
  const int64_t before = *device_->FreeBytes();
  {
    const Buffer buffer = Make(MemoryKind::kDevice, 8 * kMiB);
    EXPECT_LE(*device_->FreeBytes(), before - 8 * kMiB);
  }
  EXPECT_EQ(*device_->FreeBytes(), before);
}

TEST_P(DeviceConformance, WorkOfAStreamHappensInOrder) {
  constexpr int64_t kSize = 256 * kKiB;
  const Buffer first = Filled(kSize, 1), second = Filled(kSize, 2);
  const Buffer memory = Make(MemoryKind::kDevice, kSize);
  Buffer result = Filled(kSize, 0);
  const auto stream = MakeStream();
  EXPECT_EQ(stream->Copy(memory.data(), first.data(), kSize), 1u);
  EXPECT_EQ(stream->Copy(memory.data(), second.data(), kSize), 2u);
  EXPECT_EQ(stream->Copy(result.data(), memory.data(), kSize), 3u);
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_TRUE(AllEqual(result, 2));
  EXPECT_EQ(*stream->Completed(), 3u);
}

// One stream writes what the other reads, many times over: a wait that is not kept
// gives an old value.
TEST_P(DeviceConformance, AStreamWaitsForAnother) {
  constexpr int64_t kSize = 256 * kKiB;
  constexpr int kRounds = 20;
  std::vector<Buffer> sources, results;
  for (int i = 0; i < kRounds; ++i) {
    sources.push_back(Filled(kSize, static_cast<uint8_t>(i + 1)));
    results.push_back(Filled(kSize, 0));
  }
  const Buffer memory = Make(MemoryKind::kDevice, kSize);
  const auto writer = MakeStream(kRounds), reader = MakeStream(kRounds);
  Ticket read = 0;
  for (int i = 0; i < kRounds; ++i) {
    writer->Wait(*reader, read);
    const Ticket written = writer->Copy(memory.data(), sources[i].data(), kSize);
    reader->Wait(*writer, written);
    read = reader->Copy(results[i].data(), memory.data(), kSize);
  }
  ASSERT_TRUE(reader->Synchronize().ok());
  for (int i = 0; i < kRounds; ++i) {
    EXPECT_TRUE(AllEqual(results[i], static_cast<uint8_t>(i + 1))) << "round " << i;
  }
  EXPECT_EQ(*writer->Completed(), static_cast<Ticket>(kRounds));
}

TEST_P(DeviceConformance, MoreWorkThanTheDepthOnlyBlocksTheCaller) {
  const Buffer source = Filled(4096, 5);
  Buffer target = Filled(4096, 0);
  const auto stream = MakeStream(/*depth=*/2);
  for (Ticket i = 1; i <= 50; ++i) {
    EXPECT_EQ(stream->Copy(target.data(), source.data(), 4096), i);
  }
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(*stream->Completed(), 50u);
}

TEST_P(DeviceConformance, TheFirstErrorIsStickyAndStopsItsStreamOnly) {
  const auto fail = [](void*, uint32_t index, Stream&) -> absl::Status {
    return index == 0 ? absl::OkStatus() : absl::DataLossError(std::to_string(index));
  };
  const Buffer source = Filled(4096, 5);
  Buffer target = Filled(4096, 0), other_target = Filled(4096, 0);
  const auto stream = MakeStream(), other = MakeStream();
  stream->Run({.run = fail, .index = 0});
  stream->Run({.run = fail, .index = 7});
  stream->Run({.run = fail, .index = 8});
  stream->Copy(target.data(), source.data(), 4096);
  other->Copy(other_target.data(), source.data(), 4096);
  EXPECT_EQ(stream->Synchronize().message(), "7");
  EXPECT_EQ(stream->Completed().status().message(), "7");
  EXPECT_EQ(stream->Completed().status().message(), "7");
  EXPECT_TRUE(other->Synchronize().ok());
  EXPECT_TRUE(AllEqual(target, 0));
  EXPECT_TRUE(AllEqual(other_target, 5));
}

}  // namespace strata
