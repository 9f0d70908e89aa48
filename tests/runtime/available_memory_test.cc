#include "runtime/base/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "runtime/base/types.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

class AvailableMemoryTest : public testing::Test {
 protected:
  AvailableMemoryTest() {
    Write("/proc/meminfo",
          "MemTotal:       67108864 kB\nMemFree: 1 kB\nMemAvailable:   50331648 kB\n");
  }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(
        std::filesystem::path(root_.path() + path).parent_path());
    root_.Write(path.substr(1), text);
  }
  AvailableMemory Find() {
    const auto found = FindAvailableMemory(root_.path());
    EXPECT_TRUE(found.ok()) << found.status();
    return found.value_or(AvailableMemory{});
  }

  TemporaryDirectory root_;
};

TEST_F(AvailableMemoryTest, IsTheMachinesWithoutALimit) {
  Write("/proc/self/cgroup", "0::/user.slice\n");
  Write("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  EXPECT_EQ(Find().total_bytes, 64 * kGiB);
  EXPECT_EQ(Find().available_bytes, 48 * kGiB);
  EXPECT_EQ(Find().limiting_cgroup, "");
}

TEST_F(AvailableMemoryTest, IsWhatIsLeftOfACgroupsLimit) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/pod/memory.max", "8589934592\n");
  Write("/sys/fs/cgroup/pod/memory.current", "3221225472\n");
  Write("/sys/fs/cgroup/pod/memory.stat",
        "anon 2147483648\ninactive_file 1073741824\n");
  Write("/sys/fs/cgroup/pod/container/memory.max", "17179869184\n");
  Write("/sys/fs/cgroup/pod/container/memory.current", "0\n");
  EXPECT_EQ(Find().available_bytes, 6 * kGiB);  // the file cache can be dropped
  EXPECT_EQ(Find().limiting_cgroup, "/pod");
  EXPECT_EQ(Find().cgroup_limit_bytes, 8 * kGiB);
}

TEST_F(AvailableMemoryTest, ReadsVersionOneWherePathsAreThoseOutsideTheContainer) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/12\n4:memory:/docker/12\n0::/\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "536870912\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n");
  EXPECT_EQ(Find().available_bytes, 1536 * kMiB);
  EXPECT_EQ(Find().limiting_cgroup, "/");
}

TEST_F(AvailableMemoryTest, AnOverdrawnCgroupLeavesNothing) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "1000000\n");
  Write("/sys/fs/cgroup/memory.current", "2000000\n");
  EXPECT_EQ(Find().available_bytes, 0);
}

TEST_F(AvailableMemoryTest, WithoutMeminfoThereIsNoAnswer) {
  std::filesystem::remove(root_.path() + "/proc/meminfo");
  EXPECT_EQ(FindAvailableMemory(root_.path()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(AvailableMemory, OfThisMachineIsPositiveAndNotMoreThanItHas) {
  const auto found = FindAvailableMemory("");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_GT(found->available_bytes, 0);
  EXPECT_LE(found->available_bytes, found->total_bytes);
}

}  // namespace
}  // namespace strata
