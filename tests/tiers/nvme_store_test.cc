/// What every backend's store must do: one suite, instantiated for each of them.
#include "tiers/nvme_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "tests/support/backends.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tests/support/wait.h"

namespace strata {
namespace {

class NvmeStoreTest : public testing::TestWithParam<IoBackend> {
 protected:
  NvmeStoreOptions Options(int64_t capacity_bytes) {
    NvmeStoreOptions options;
    options.directories = {{.path = directory_ / "swap"}};
    options.capacity_bytes = capacity_bytes;
    options.extent_count_max = 1000;
    options.chunk_bytes = 64 * kKiB;
    options.window_bytes = 256 * kKiB;
    options.io_backend = GetParam();
    return options;
  }

  static std::unique_ptr<NvmeStore> Make(NvmeStoreOptions options) {
    auto store = NvmeStore::Create(std::move(options));
    STRATA_CHECK(store.ok());
    return *std::move(store);
  }

  /// The one swap file below `path`.
  static std::string SwapFileIn(const std::string& path) {
    for (const std::string& name : ListTree(path)) {
      if (name.ends_with("/swap")) return path + "/" + name;
    }
    return "";
  }

  static void FlipByte(const std::string& path, int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(offset);
    file.put(byte);
    ASSERT_TRUE(file.good());
  }

  TempDirectory directory_;
};

TEST_P(NvmeStoreTest, GivesBackEverySizeAtEveryOffset) {
  auto store = Make(Options(4 * kMiB));
  int64_t offset = 0;
  uint64_t seed = 1;
  for (const int64_t pages : {1, 3, 15, 16, 17, 31, 33, 100, 257}) {
    const int64_t size_bytes = pages * Store::kAlignment;
    const PageBuffer source(size_bytes, seed++);
    PageBuffer target(size_bytes);
    ASSERT_EQ(WaitForWrites(*store,
                            store->Write(offset, source.data(), size_bytes, "extent")),
              absl::OkStatus());
    const auto read =
        WaitForReads(*store, store->Read(offset, target.data(), size_bytes, "extent"));
    ASSERT_TRUE(read.ok()) << read;
    EXPECT_EQ(source, target) << pages << " pages at " << offset;
    offset += size_bytes;
  }
  EXPECT_EQ(store->bytes_written(), offset);
  EXPECT_EQ(store->bytes_read(), offset);
}

TEST_P(NvmeStoreTest, MovesTheSameBytesWhateverMemoryIsRegistered) {
  NvmeStoreOptions options = Options(4 * kMiB);
  options.directories.push_back({.path = directory_ / "second"});
  auto store = Make(std::move(options));
  const PageBuffer source(kMiB, 7);
  PageBuffer known(kMiB), other(kMiB);
  std::memcpy(known.data(), source.data(), static_cast<size_t>(kMiB));
  const std::vector<std::span<std::byte>> ranges = {
      known.span().subspan(0, 512 * kKiB)};
  for (const bool is_registered : {true, false, true}) {
    store->RegisterMemory(is_registered ? std::span(ranges)
                                        : std::span<const std::span<std::byte>>());
    const bool says_so = store->descriptions()[1].find("524288 bytes of registered") !=
                         std::string::npos;
    EXPECT_TRUE(says_so == is_registered || GetParam() != IoBackend::kIoUring)
        << store->descriptions()[1];
    const Ticket written = store->Write(0, known.data(), kMiB, "extent");
    ASSERT_EQ(WaitForWrites(*store, written), absl::OkStatus());
    for (PageBuffer* target : {&known, &other}) {
      std::memset(target->data(), 0, static_cast<size_t>(kMiB));
      const Ticket read = store->Read(0, target->data(), kMiB, "extent");
      ASSERT_EQ(WaitForReads(*store, read), absl::OkStatus());
      EXPECT_EQ(*target, source);
    }
  }
}

TEST_P(NvmeStoreTest, KeepsManyRequestsOfBothLanesApart) {
  constexpr int kExtents = 64;
  auto store = Make(Options(kExtents * 100 * kKiB));
  std::vector<PageBuffer> sources;
  std::vector<PageBuffer> targets;
  for (int i = 0; i < kExtents; ++i) {
    sources.emplace_back(100 * kKiB, i);
    targets.emplace_back(100 * kKiB);
  }
  const auto write = [&](int i) {
    return store->Write(i * 100 * kKiB, sources[i].data(), 100 * kKiB, "extent");
  };
  Ticket written = 0;
  for (int i = 0; i < kExtents / 2; ++i) written = write(i);
  ASSERT_EQ(WaitForWrites(*store, written), absl::OkStatus());
  Ticket read = 0;
  for (int i = 0; i < kExtents / 2; ++i) {  // both lanes at once
    read = store->Read(i * 100 * kKiB, targets[i].data(), 100 * kKiB, "extent");
    written = write(kExtents / 2 + i);
  }
  ASSERT_EQ(WaitForWrites(*store, written), absl::OkStatus());
  for (int i = kExtents / 2; i < kExtents; ++i) {
    read = store->Read(i * 100 * kKiB, targets[i].data(), 100 * kKiB, "extent");
  }
  ASSERT_EQ(WaitForReads(*store, read), absl::OkStatus());
  for (int i = 0; i < kExtents; ++i) EXPECT_EQ(sources[i], targets[i]) << i;
}

TEST_P(NvmeStoreTest, EqualsAnArrayUnderRandomOverwrites) {
  constexpr int kExtents = 24;
  NvmeStoreOptions options = Options(kExtents * 80 * kKiB);
  options.directories.push_back({.path = directory_ / "second"});
  options.directories.push_back({.path = directory_ / "third"});
  auto store = Make(std::move(options));
  std::mt19937 random(20);
  std::vector<PageBuffer> model;
  std::vector<PageBuffer> targets;
  for (int i = 0; i < kExtents; ++i) {
    model.emplace_back(80 * kKiB);
    targets.emplace_back(80 * kKiB);
  }
  for (int round = 0; round < 20; ++round) {
    Ticket written = 0;
    for (int i = 0; i < kExtents; ++i) {
      if (round > 0 && random() % 2 == 0) continue;
      model[i].Fill(random());
      written = store->Write(i * 80 * kKiB, model[i].data(), 80 * kKiB, "extent");
    }
    ASSERT_EQ(WaitForWrites(*store, written), absl::OkStatus());
    Ticket read = 0;
    for (int i = kExtents - 1; i >= 0; --i) {
      read = store->Read(i * 80 * kKiB, targets[i].data(), 80 * kKiB, "extent");
    }
    const absl::Status status = WaitForReads(*store, read);
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < kExtents; ++i) ASSERT_EQ(model[i], targets[i]);
  }
}

TEST_P(NvmeStoreTest, RefusesToReadWhatWasNeverWrittenAndSaysSoForEver) {
  auto store = Make(Options(kMiB));
  PageBuffer memory(64 * kKiB, 1);
  store->Read(0, memory.data(), 64 * kKiB, "block.3/state[2]");
  store->Drain();
  const absl::Status first = store->ReadsCompleted().status();
  EXPECT_EQ(first.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(first.message().find("read 'block.3/state[2]' at 0+65536 in "),
            std::string::npos)
      << first;
  ASSERT_EQ(WaitForWrites(*store, store->Write(0, memory.data(), 64 * kKiB, "later")),
            absl::OkStatus());
  store->Read(0, memory.data(), 64 * kKiB, "later");
  store->Drain();
  EXPECT_EQ(store->ReadsCompleted().status(), first);
}

TEST_P(NvmeStoreTest, RefusesToReadAnotherSizeThanWasWritten) {
  auto store = Make(Options(kMiB));
  PageBuffer memory(64 * kKiB, 1);
  ASSERT_EQ(WaitForWrites(*store, store->Write(0, memory.data(), 64 * kKiB, "extent")),
            absl::OkStatus());
  EXPECT_EQ(
      WaitForReads(*store, store->Read(0, memory.data(), 32 * kKiB, "extent")).code(),
      absl::StatusCode::kFailedPrecondition);
}

TEST_P(NvmeStoreTest, FindsAByteThatChangedOnTheDriveAndNamesIt) {
  auto store = Make(Options(kMiB));
  PageBuffer memory(256 * kKiB, 1);
  ASSERT_EQ(WaitForWrites(*store, store->Write(0, memory.data(), 256 * kKiB, "wanted")),
            absl::OkStatus());
  const std::string file = SwapFileIn(directory_ / "swap");
  FlipByte(file, 64 * kKiB + 77);
  const absl::Status status =
      WaitForReads(*store, store->Read(0, memory.data(), 256 * kKiB, "wanted"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("read 'wanted' at 65536+65536 in " + file),
            std::string::npos)
      << status;
}

TEST_P(NvmeStoreTest, DrainWaitsForWhatIsInFlight) {
  auto store = Make(Options(8 * kMiB));
  PageBuffer source(8 * kMiB, 1);
  PageBuffer target(8 * kMiB);
  store->Write(0, source.data(), 8 * kMiB, "all");
  store->Drain();
  EXPECT_EQ(*store->WritesCompleted(), 1u);
  store->Read(0, target.data(), 8 * kMiB, "all");
  store->Drain();
  EXPECT_EQ(source, target);
  EXPECT_EQ(*store->ReadsCompleted(), 1u);
}

TEST_P(NvmeStoreTest, DestructionWithRequestsInFlightLeavesNothing) {
  PageBuffer source(8 * kMiB, 1);
  {
    auto store = Make(Options(8 * kMiB));
    store->Write(0, source.data(), 8 * kMiB, "all");
  }
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

TEST_P(NvmeStoreTest, TwoStoresInOnePathDoNotMeet) {
  auto first = Make(Options(kMiB));
  auto second = Make(Options(kMiB));
  PageBuffer one(kMiB, 1);
  PageBuffer two(kMiB, 2);
  PageBuffer target(kMiB);
  ASSERT_EQ(WaitForWrites(*first, first->Write(0, one.data(), kMiB, "one")),
            absl::OkStatus());
  ASSERT_EQ(WaitForWrites(*second, second->Write(0, two.data(), kMiB, "two")),
            absl::OkStatus());
  ASSERT_EQ(WaitForReads(*first, first->Read(0, target.data(), kMiB, "one")),
            absl::OkStatus());
  EXPECT_EQ(one, target);
  first = nullptr;
  ASSERT_EQ(WaitForReads(*second, second->Read(0, target.data(), kMiB, "two")),
            absl::OkStatus());
  EXPECT_EQ(two, target);
  second = nullptr;
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

TEST_P(NvmeStoreTest, StripesOverDirectoriesWithinTheirLimits) {
  NvmeStoreOptions options = Options(kMiB);
  options.directories = {{directory_ / "a", 128 * kKiB}, {directory_ / "b"}};
  auto store = Make(std::move(options));
  PageBuffer source(kMiB, 1);
  PageBuffer target(kMiB);
  ASSERT_EQ(WaitForWrites(*store, store->Write(0, source.data(), kMiB, "all")),
            absl::OkStatus());
  ASSERT_EQ(WaitForReads(*store, store->Read(0, target.data(), kMiB, "all")),
            absl::OkStatus());
  EXPECT_EQ(source, target);
  EXPECT_EQ(std::filesystem::file_size(SwapFileIn(directory_ / "a")), 128 * kKiB);
  EXPECT_EQ(std::filesystem::file_size(SwapFileIn(directory_ / "b")), 896 * kKiB);
}

TEST_P(NvmeStoreTest, RefusesACapacityBeyondTheLimitsWithTheNumbers) {
  NvmeStoreOptions options = Options(kMiB);
  options.directories = {{directory_ / "a", 128 * kKiB},
                         {directory_ / "b", 256 * kKiB}};
  const absl::Status status = NvmeStore::Create(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("needs 1048576 bytes"), std::string::npos) << status;
  EXPECT_NE(status.message().find("393216 bytes"), std::string::npos) << status;
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

TEST_P(NvmeStoreTest, RefusesACapacityBeyondTheDriveAndLeavesNothing) {
  const absl::Status status = NvmeStore::Create(Options(int64_t{1} << 50)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(ListTree(directory_.path()).empty());
}

INSTANTIATE_TEST_SUITE_P(, NvmeStoreTest, testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata
