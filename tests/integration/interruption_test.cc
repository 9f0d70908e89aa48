/// A run that is killed, again and again, ends as one that is not; a run that is
/// interrupted saves itself.

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <random>

#include "model/checkpoint_folder.h"
#include "tests/support/checkpoints.h"
#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = " --resume_from_checkpoint latest";

RunRequest Request(const std::string& flags) {
  RunRequest request{.rows = Sequences(0, 5), .flags = flags};
  request.deepspeed["gradient_clipping"] = 3.0;
  return request;
}

std::vector<std::string> LossesOf(const RunOutcome& outcome) {
  std::vector<std::string> texts;
  for (const auto& step : outcome.steps) {
    texts.push_back(absl::StrCat(step["step"].dump(), " ", step["loss"].dump(), " ",
                                 step["grad_norm"].dump()));
  }
  return texts;
}

TEST(Interruption, KilledAndResumedUntilItIsDoneEqualsTheWholeRun) {
  const std::string flags = " --bf16 --max_steps 8 --save_steps 1 --save_total_limit 2";
  const TiertrainRun whole_run;
  const RunOutcome whole = whole_run.Run(Request(flags + PlacedIn(whole_run, "nvme")));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;

  const TiertrainRun run;
  std::mt19937 random(7);
  int kills = 0;
  for (bool done = false; !done;) {
    ASSERT_LT(++kills, 60);
    const bool resumes = !ListCheckpoints(run.output()).empty();
    RunningTiertrain running =
        run.Start(Request(flags + PlacedIn(run, "nvme") + (resumes ? kLatest : "")));
    // Right after a line "step" the run saves, after a line "saved" it computes.
    bool more = true;
    for (int lines = static_cast<int>(random() % 6); more && lines >= 0; --lines) {
      more = running.WaitForLine("s");
    }
    if (more) running.Signal(SIGKILL);
    const RunOutcome outcome = running.Finish();
    done = outcome.exit_code == 0;
    ASSERT_TRUE(done || outcome.exit_code == 128 + SIGKILL) << outcome.output;
    if (resumes) {
      const auto found = FindLatestCheckpoint(run.output());
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_EQ(found->passed_over, std::vector<std::string>());
    }
    if (done) {
      EXPECT_EQ(LossesOf(outcome), LossesOf(whole));
    }
  }
  EXPECT_GT(kills, 3);
  EXPECT_EQ(run.ExportedBytes(), whole_run.ExportedBytes());
  EXPECT_EQ(TensorSums(run.output() + "/checkpoint-8"),
            TensorSums(whole_run.output() + "/checkpoint-8"));
  EXPECT_EQ(run.List(), whole_run.List());  // no swap, nothing temporary
}

TEST(Interruption, CtrlCSavesAndExitsWith130AndTheRunGoesOnFromThere) {
  const TiertrainRun run;
  const std::string flags = " --save_steps 1000 --lr_scheduler_type constant";
  int64_t step = 0;
  {
    RunningTiertrain running =
        run.Start(Request(flags + " --max_steps 1000000" + PlacedIn(run, "nvme")));
    ASSERT_TRUE(running.WaitForLine("step 2/"));
    running.Signal(SIGINT);
    const RunOutcome outcome = running.Finish();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
    step = static_cast<int64_t>(outcome.steps.size());
    EXPECT_NE(outcome.errors.find(
                  absl::StrCat("saved in ", run.output(), "/checkpoint-", step)),
              std::string::npos)
        << outcome.errors;
    EXPECT_FALSE(fs::exists(run.directory().File("swap")));
    EXPECT_EQ(CheckpointNames(run.output()).size(), 1u);
  }
  const std::string total = absl::StrCat(" --max_steps ", step + 3);
  const RunOutcome resumed = run.Run(Request(flags + total + kLatest));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  const TiertrainRun whole_run;
  const RunOutcome whole = whole_run.Run(Request(flags + total));
  EXPECT_EQ(LossesOf(resumed), LossesOf(whole));
  EXPECT_EQ(run.ExportedBytes(), whole_run.ExportedBytes());
}

TEST(Interruption, ASecondSignalEndsAtOnceAndHarmsNothing) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    const TiertrainRun run;
    const std::string flags = " --save_steps 1 --save_total_limit 1 --max_steps ";
    RunningTiertrain running =
        run.Start(Request(flags + "1000000" + PlacedIn(run, "nvme")));
    ASSERT_TRUE(running.WaitForLine("saved "));
    for (int lines = 0; lines < round; ++lines) {
      ASSERT_TRUE(running.WaitForLine("s"));
    }
    running.Signal(SIGINT);
    running.Signal(SIGTERM);
    EXPECT_EQ(running.Finish().exit_code, 130);
    EXPECT_FALSE(fs::exists(run.directory().File("swap")));
    const auto found = FindLatestCheckpoint(run.output());
    ASSERT_TRUE(found.ok()) << found.status();
    const int64_t total = found->manifest.run.step + 2;
    const RunOutcome resumed =
        run.Run(Request(absl::StrCat(flags, total, PlacedIn(run, "nvme"), kLatest)));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.output;
    EXPECT_EQ(CheckpointNames(run.output()).size(), 1u);
  }
}

TEST(Interruption, ASecondRunInTheSameOutputDirectoryIsRefusedWhileTheFirstLives) {
  const TiertrainRun run;
  RunningTiertrain running = run.Start(Request(" --save_steps 1 --max_steps 1000000"));
  ASSERT_TRUE(running.WaitForLine("saved "));
  const TiertrainRun second;
  const RunOutcome outcome =
      second.Run(Request(" --save_steps 1 --max_steps 1 --output_dir " + run.output()));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.errors.find("another process"), std::string::npos)
      << outcome.errors;
  running.Signal(SIGINT);
  EXPECT_EQ(running.Finish().exit_code, 130);
}

TEST(Interruption, DamagedCheckpointsArePassedOverAndNamed) {
  const TiertrainRun run;
  const std::string flags = " --save_steps 1 --max_steps ";
  const RunOutcome whole = run.Run(Request(flags + "4"));
  ASSERT_EQ(whole.exit_code, 0) << whole.output;
  FlipBit(run.output() + "/checkpoint-4/moment2.safetensors", 2000, 3);
  fs::resize_file(run.output() + "/checkpoint-3/model.safetensors",
                  fs::file_size(run.output() + "/checkpoint-3/model.safetensors") - 1);
  const RunOutcome resumed = run.Run(Request(flags + "4" + kLatest));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  for (const char* named : {"checkpoint-4/moment2.safetensors is damaged",
                            "checkpoint-3/model.safetensors has "}) {
    EXPECT_NE(resumed.errors.find(named), std::string::npos) << resumed.errors;
  }
  EXPECT_NE(resumed.output.find("resumed after step 2 from"), std::string::npos);
  EXPECT_EQ(LossesOf(resumed), LossesOf(whole));
  for (const std::string& name : CheckpointNames(run.output())) {
    EXPECT_TRUE(VerifyCheckpoint(run.output() + "/" + name).ok()) << name;
  }

  FlipBit(run.output() + "/checkpoint-2/config.json", 20, 0);
  ExpectRefused(
      run,
      Request(flags + "4 --resume_from_checkpoint " + run.output() + "/checkpoint-2"),
      {"checkpoint-2/config.json is damaged"});
}

TEST(Interruption, WithoutItsMomentsOrRemaindersACheckpointIsRefused) {
  for (const char* file : {"moment1.safetensors", "remainder.safetensors"}) {
    const TiertrainRun run;
    const std::string flags = " --bf16 --save_steps 3 --max_steps ";
    ASSERT_EQ(run.Run(Request(flags + "3")).exit_code, 0);
    fs::remove(run.output() + "/checkpoint-3/" + file);
    ExpectRefused(run, Request(flags + "6" + kLatest), {file, "is missing"});
  }
}

TEST(Interruption, LatestWithoutAnyCheckpointIsRefused) {
  const TiertrainRun run;
  ExpectRefused(run, Request(" --max_steps 1" + std::string(kLatest)),
                {"no complete checkpoint", run.output()});
  ExpectRefused(run, Request(" --max_steps 1 --resume_from_checkpoint " + run.model()),
                {run.model(), "no manifest.json"});
}

TEST(Interruption, ACheckpointOfAnotherRunIsSaidAndStays) {
  const TiertrainRun run;
  ASSERT_EQ(run.Run(Request(" --save_steps 9 --max_steps 9")).exit_code, 0);
  const RunOutcome outcome =
      run.Run(Request(" --save_steps 1 --save_total_limit 2 --max_steps 4"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NE(outcome.errors.find("checkpoint-9, not of this run"), std::string::npos)
      << outcome.errors;
  EXPECT_EQ(CheckpointNames(run.output()),
            (std::vector<std::string>{"checkpoint-3", "checkpoint-4", "checkpoint-9"}));
  const RunOutcome resumed = run.Run(Request(" --max_steps 5" + std::string(kLatest)));
  EXPECT_NE(resumed.output.find("resumed after step 4 from"), std::string::npos)
      << resumed.output;
}

}  // namespace
}  // namespace strata
