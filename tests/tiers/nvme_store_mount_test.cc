/// The store on filesystems of the test's own: full ones, read-only ones, and one whose
/// device says how many bytes really moved.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/support/backends.h"
#include "tests/support/mounts.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tests/support/wait.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

class NvmeStoreMountTest : public testing::TestWithParam<IoBackend> {
 protected:
  static NvmeStoreOptions Options(const std::string& path, int64_t capacity_bytes) {
    NvmeStoreOptions options;
    options.directories = {{.path = path}};
    options.capacity_bytes = capacity_bytes;
    options.extent_count_max = 100;
    options.io_backend = GetParam();
    return options;
  }
};

TEST_P(NvmeStoreMountTest, ADiskThatIsTooSmallIsRefusedWithTheNumbersAndLeftClean) {
  const TmpfsMount disk("size=16m", 0);
  ASSERT_TRUE(disk.ok());
  const absl::Status status =
      NvmeStore::Create(Options(disk.path() + "/swap", 17 * kMiB)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  // need.
  EXPECT_NE(status.message().find("needs 17825792 bytes"), std::string::npos) << status;
  EXPECT_NE(status.message().find("16777216 bytes"), std::string::npos) << status;
  EXPECT_TRUE(ListTree(disk.path()).empty());
}

TEST_P(NvmeStoreMountTest, TwoDirectoriesOnOneFullDiskAreRefusedAndLeftClean) {
  // Each sees all of the free space and promises half of the capacity; the second
  // cannot keep it.
  const LoopMount disk(32 * kMiB);
  ASSERT_TRUE(disk.ok());
  NvmeStoreOptions options = Options(disk.path() + "/a", 40 * kMiB);
  options.directories.push_back({.path = disk.path() + "/b"});
  const absl::Status status = NvmeStore::Create(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ListTree(disk.path()), std::vector<std::string>{"lost+found"});
}

TEST_P(NvmeStoreMountTest, AReadOnlyDiskIsRefusedByName) {
  const TmpfsMount disk("size=16m", MS_RDONLY);
  ASSERT_TRUE(disk.ok());
  const absl::Status status = NvmeStore::Create(Options(disk.path(), kMiB)).status();
  EXPECT_NE(status.message().find("nvme_path '" + disk.path() + "'"), std::string::npos)
      << status;
  EXPECT_NE(status.message().find("Read-only"), std::string::npos) << status;
}

TEST_P(NvmeStoreMountTest, TheDeviceCountsTheBytesThatTheStoreCounts) {
  constexpr int64_t kSize = 48 * kMiB;
  const LoopMount disk(96 * kMiB);
  ASSERT_TRUE(disk.ok());
  auto store = NvmeStore::Create(Options(disk.path() + "/swap", kSize));
  ASSERT_TRUE(store.ok()) << store.status();
  PageBuffer source(kSize, 1);
  PageBuffer target(kSize);

  const LoopMount::Counts start = disk.counts();
  ASSERT_EQ(WaitForWrites(**store, (*store)->Write(0, source.data(), kSize, "all")),
            absl::OkStatus());
  const LoopMount::Counts written = disk.counts();
  ASSERT_EQ(WaitForReads(**store, (*store)->Read(0, target.data(), kSize, "all")),
            absl::OkStatus());
  const LoopMount::Counts read = disk.counts();
  EXPECT_EQ(source, target);

  EXPECT_EQ((*store)->bytes_written(), kSize);
  EXPECT_EQ((*store)->bytes_read(), kSize);
  EXPECT_EQ(read.bytes_read - written.bytes_read, kSize);  // past the page cache
  const int64_t device_bytes = written.bytes_written - start.bytes_written;
  EXPECT_GE(device_bytes, kSize);
  EXPECT_LE(device_bytes, kSize + kSize / 100);  // and the filesystem's own
}

INSTANTIATE_TEST_SUITE_P(, NvmeStoreMountTest, testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!strata::TmpfsMount("size=1m", 0).ok() || !strata::LoopMount(8 << 20).ok()) {
    std::fprintf(stderr,
                 "SKIPPED: these tests mount tmpfs and loop devices, which needs "
                 "root, CAP_SYS_ADMIN, /dev/loop-control and mkfs.ext4\n");
    return strata::kSkipped;
  }
  return RUN_ALL_TESTS();
}
