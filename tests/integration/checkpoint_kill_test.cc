/// kill -9 at any instant of a save leaves a complete checkpoint, and nothing that
/// stands in the way of the next start. The instants are the system calls that change
/// files, one after the other: `--calls=N` tries N of them, `--calls=all` all.

#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "model/checkpoint_folder.h"
#include "tests/support/checkpoints.h"
#include "tests/support/temp_directory.h"
#include "tests/support/traced_save.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

int g_calls = 0;

TEST(CheckpointKill, AtAnyInstantOfASaveOneCompleteCheckpointIsFound) {
  const TempDirectory whole;
  const int calls = SaveTwice(whole.path(), 0).calls;
  ASSERT_GT(calls, 50);
  const auto second = TensorSums(whole / "checkpoint-2");
  std::map<std::string, std::string> first;

  const std::vector<int> instants = SomeCalls(calls, g_calls);
  int found_first = 0;
  for (const int instant : instants) {
    SCOPED_TRACE(instant);
    const TempDirectory directory;
    EXPECT_TRUE(SaveTwice(directory.path(), instant).killed);
    auto found = FindLatestCheckpoint(directory.path());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->passed_over, std::vector<std::string>());
    const auto files = TensorSums(found->directory);
    if (found->manifest.run.step == 1) {
      ++found_first;
      if (first.empty()) first = files;
      EXPECT_EQ(files, first);
    } else {
      EXPECT_EQ(files, second);
    }
    // The next start has the folder for itself, and only checkpoints are in it.
    const auto folder = CheckpointFolder::Open(directory.path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    for (const auto& entry : fs::directory_iterator(directory.path())) {
      EXPECT_TRUE(absl::StartsWith(entry.path().filename().string(), "checkpoint-"))
          << entry.path();
      EXPECT_TRUE(VerifyCheckpoint(entry.path()).ok());
    }
  }
  EXPECT_GT(found_first, 0);
  std::printf("killed at %zu of %d instants; %d times the older one was found\n",
              instants.size(), calls, found_first);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  strata::g_calls = strata::CallsToTry(argc, argv, 10);
  return RUN_ALL_TESTS();
}
