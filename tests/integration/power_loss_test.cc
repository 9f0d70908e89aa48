/// A loss of power at any instant of a save leaves a complete checkpoint, too: what is
/// under its own name is on the drive, and the one before goes only after that.
/// `--calls=N` and `--calls=all` as in checkpoint_kill_test.

#include <gtest/gtest.h>

#include <cstdio>

#include "model/checkpoint_folder.h"
#include "tests/support/backends.h"
#include "tests/support/checkpoints.h"
#include "tests/support/mounts.h"
#include "tests/support/traced_save.h"

namespace strata {
namespace {

constexpr int64_t kDiskBytes = 48 << 20;

int g_calls = 0;

TEST(PowerLoss, ASavedCheckpointIsOnTheDrive) {
  LoopMount disk(kDiskBytes, LoopMount::Journal::kSome);
  ASSERT_TRUE(disk.ok());
  EXPECT_FALSE(SaveTwice(disk.path() + "/out", 0).killed);
  const auto files = TensorSums(disk.path() + "/out/checkpoint-2");
  ASSERT_TRUE(disk.LosePower());
  ASSERT_TRUE(disk.PowerUp());
  const auto found = FindLatestCheckpoint(disk.path() + "/out");
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->manifest.run.step, 2);
  EXPECT_EQ(TensorSums(found->directory), files);
}

TEST(PowerLoss, AtAnyInstantOfASaveOneCompleteCheckpointIsFound) {
  const TempDirectory whole;
  const int calls = SaveTwice(whole.path(), 0).calls;
  int found_first = 0;
  for (const int instant : SomeCalls(calls, g_calls)) {
    SCOPED_TRACE(instant);
    LoopMount disk(kDiskBytes, LoopMount::Journal::kSome);
    ASSERT_TRUE(disk.ok());
    EXPECT_TRUE(SaveTwice(disk.path() + "/out", instant, [&disk] {
                  EXPECT_TRUE(disk.LosePower());
                }).killed);
    ASSERT_TRUE(disk.PowerUp());
    const auto found = FindLatestCheckpoint(disk.path() + "/out");
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->passed_over, std::vector<std::string>());
    found_first += found->manifest.run.step == 1;
  }
  EXPECT_GT(found_first, 0);
  std::printf("%d times the older one was found\n", found_first);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  strata::g_calls = strata::CallsToTry(argc, argv, 8);
  if (!strata::LoopMount(8 << 20).ok()) {
    std::fprintf(stderr,
                 "SKIPPED: these tests mount loop devices, which needs root, "
                 "CAP_SYS_ADMIN, /dev/loop-control and mkfs.ext4\n");
    return strata::kSkipped;
  }
  return RUN_ALL_TESTS();
}
