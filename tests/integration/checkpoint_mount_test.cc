/// Checkpoints on disks that are full, or become so in the middle of a save: an error
/// with the file and the numbers, the checkpoints before it whole, nothing half there.

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "model/checkpoint_folder.h"
#include "model/checkpoint_state.h"
#include "model/text_file.h"
#include "tests/support/backends.h"
#include "tests/support/checkpoints.h"
#include "tests/support/mounts.h"
#include "tests/support/tiertrain_run.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class CheckpointMountTest : public testing::Test {
 protected:
  CheckpointMountTest() { EXPECT_TRUE(toy_.trainer->LoadWeights(ToyWeights()).ok()); }

  absl::Status Save(const std::string& path, int64_t step,
                    std::function<absl::Status(const std::string&)> extras = {}) {
    auto folder = CheckpointFolder::Open(path);
    STRATA_RETURN_IF_ERROR(folder.status());
    return (*folder)
        ->Save(*toy_.trainer, {.run = {.run_id = "mine", .step = step},
                               .keep_max = 2,
                               .write_extras = std::move(extras)})
        .status();
  }

  void ExpectWhole(const std::string& path, const Names& names) {
    EXPECT_EQ(CheckpointNames(path), names);
    for (const auto& entry : fs::directory_iterator(path)) {
      EXPECT_TRUE(VerifyCheckpoint(entry.path()).ok()) << entry.path();
    }
  }

  ToyTrainer toy_ = MakeToyTrainer({{}, {}}, 1);
  const int64_t needed_ = TensorBytes(toy_.trainer->model());
};

TEST_F(CheckpointMountTest, ADiskWithTooLittleRoomIsSeenBeforeAnythingIsWritten) {
  const TmpfsMount disk(absl::StrCat("size=", needed_ * 5 / 2), 0);
  ASSERT_TRUE(disk.ok());
  ASSERT_TRUE(Save(disk.path(), 1).ok());
  ASSERT_TRUE(Save(disk.path(), 2).ok());
  const absl::Status status = Save(disk.path(), 3);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "checkpoint-3 (")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "bytes needed, ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "nothing was written")) << status;
  ExpectWhole(disk.path(), {"checkpoint-1", "checkpoint-2"});
}

TEST_F(CheckpointMountTest, ADiskThatFillsDuringASaveLeavesTheOneBefore) {
  const TmpfsMount disk(absl::StrCat("size=", needed_ * 5 / 2), 0);
  ASSERT_TRUE(disk.ok());
  ASSERT_TRUE(Save(disk.path(), 1).ok());
  const absl::Status status = Save(disk.path(), 2, [this](const std::string& path) {
    return WriteTextFile(path + "/tokenizer.json",
                         std::string(static_cast<size_t>(needed_), 'x'));
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "tokenizer.json")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "No space left")) << status;
  ExpectWhole(disk.path(), {"checkpoint-1"});
  EXPECT_TRUE(Save(disk.path(), 3).ok());
}

TEST_F(CheckpointMountTest, AFilesystemThatRunsOutOfFilesLeavesTheOneBefore) {
  // The mount, a checkpoint of its directory and four files, and three more.
  for (int inodes = 7; inodes < 11; ++inodes) {
    SCOPED_TRACE(inodes);
    const TmpfsMount disk(absl::StrCat("size=64m,nr_inodes=", inodes), 0);
    ASSERT_TRUE(disk.ok());
    ASSERT_TRUE(Save(disk.path(), 1).ok());
    const absl::Status status = Save(disk.path(), 2);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    ExpectWhole(disk.path(), {"checkpoint-1"});
  }
}

TEST_F(CheckpointMountTest, ADiskThatTurnsReadOnlyIsAnErrorByName) {
  const TmpfsMount disk("size=64m", 0);
  ASSERT_TRUE(disk.ok());
  ASSERT_TRUE(Save(disk.path(), 1).ok());
  ASSERT_EQ(mount("tmpfs", disk.path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, ""),
            0);
  const absl::Status status = Save(disk.path(), 2);
  EXPECT_TRUE(absl::StrContains(status.message(), "Read-only")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), disk.path())) << status;
  ExpectWhole(disk.path(), {"checkpoint-1"});
}

RunRequest SaveEachStep(const std::string& output, const std::string& flags) {
  return {.rows = Sequences(0, 3),
          .flags = absl::StrCat("--save_steps 1 --save_total_limit 2 --output_dir ",
                                output, " ", flags)};
}

TEST(CheckpointMountRun, AFullDiskEndsTheRunWith1AndItGoesOnFromTheOneBefore) {
  const TiertrainRun whole;
  const RunOutcome expected = whole.Run(SaveEachStep(whole.output(), "--max_steps 6"));
  ASSERT_EQ(expected.exit_code, 0) << expected.output;
  int64_t size_bytes = 0;
  for (const auto& [name, bytes] : TensorFiles(whole.output() + "/checkpoint-6")) {
    size_bytes += static_cast<int64_t>(bytes.size());
  }

  const TmpfsMount disk(absl::StrCat("size=", size_bytes * 5 / 2), 0);
  ASSERT_TRUE(disk.ok());
  const TiertrainRun run;
  const RunOutcome full = run.Run(SaveEachStep(disk.path(), "--max_steps 6"));
  EXPECT_EQ(full.exit_code, 1) << full.output;
  EXPECT_NE(full.errors.find("bytes needed, "), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find("do: free space there"), std::string::npos) << full.errors;
  EXPECT_EQ(full.steps.size(), 3u);
  EXPECT_EQ(CheckpointNames(disk.path()), (Names{"checkpoint-1", "checkpoint-2"}));
  EXPECT_EQ(fs::exists(disk.path() + "/model.safetensors"), false);

  ASSERT_EQ(mount("tmpfs", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const RunOutcome resumed = run.Run(
      SaveEachStep(disk.path(), "--max_steps 6 --resume_from_checkpoint latest"));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(resumed.Losses(), expected.Losses());
  EXPECT_EQ(TensorSums(disk.path() + "/checkpoint-6"),
            TensorSums(whole.output() + "/checkpoint-6"));
}

TEST(CheckpointMountRun, ATooSmallDiskIsSaidAtTheStart) {
  const TmpfsMount disk("size=64k", 0);
  ASSERT_TRUE(disk.ok());
  const TiertrainRun run;
  const RunOutcome outcome = run.Run(SaveEachStep(disk.path(), "--max_steps 3"));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.errors.find("warning: a checkpoint takes 237696 bytes"),
            std::string::npos)
      << outcome.errors;
  EXPECT_EQ(CheckpointNames(disk.path()), Names());
  EXPECT_EQ(ListTree(disk.path()), Names());
}

TEST(CheckpointMountRun, AFullSwapDiskIsRefusedAndLeftClean) {
  const TmpfsMount disk("size=64k", 0);
  ASSERT_TRUE(disk.ok());
  const TiertrainRun run;
  ExpectRefused(run,
                {.rows = Sequences(0, 3),
                 .flags = "--max_steps 3 --placement optimizer=nvme --nvme_path " +
                          disk.path() + "/swap:64MiB"},
                {"NVMe tier", disk.path(), "65536 bytes"});
  EXPECT_EQ(ListTree(disk.path()), Names());
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!strata::TmpfsMount("size=1m", 0).ok()) {
    std::fprintf(stderr,
                 "SKIPPED: these tests mount tmpfs, which needs root and "
                 "CAP_SYS_ADMIN\n");
    return strata::kSkipped;
  }
  return RUN_ALL_TESTS();
}
