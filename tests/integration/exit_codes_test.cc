/// Exit code 2: refused before anything was made. 1: failed while running. 130:
/// interrupted. After each of them nothing is left but the log.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

RunRequest Simple(const std::string& flags) {
  return {.rows = Sequences(0, 2), .flags = "--max_steps 2 " + flags};
}

std::vector<std::string> OnlyTheLog() {
  std::vector<std::string> names = TiertrainRun().List();
  names.insert(names.begin(), "log.jsonl");
  return names;
}

TEST(ExitCodes, OutputsThatCannotBeWrittenAreRefusedBeforeTheTraining) {
  const TiertrainRun run;
  const std::string directory = run.directory().path();
  const std::string file = run.directory().Write("a-file", "x");
  const std::vector<std::pair<std::string, std::vector<std::string>>> cases = {
      {"--log_file " + directory, {"--log_file", "directory"}},
      {"--log_file " + directory + "/no/log", {"--log_file", "does not exist"}},
      {"--log_file /proc/log", {"--log_file", "/proc/log"}},
      {"--timeline " + directory, {"--timeline", "directory"}},
      {"--logits_file " + directory + " --eval_file " + run.data(),
       {"--logits_file", "directory"}},
      {"--logits_file " + directory + "/l.safetensors",
       {"--logits_file", "--eval_file"}},
      {"--output_dir /proc/out", {"--output_dir", "/proc"}},
      {"--output_dir " + file, {"--output_dir", "a-file", "is a file"}},
      {"--output_dir " + file + "/out", {"--output_dir", "a-file is a file"}},
  };
  for (const auto& [flags, named] : cases) {
    SCOPED_TRACE(flags);
    ExpectRefused(run, Simple(flags), named);
  }
}

TEST(ExitCodes, AnOutputThatWouldReplaceAnInputIsRefused) {
  const TiertrainRun run;
  const std::string link = run.directory().File("link");
  fs::create_symlink(run.data(), link);
  for (const char* flag : {"--log_file ", "--timeline "}) {
    ExpectRefused(run, Simple(flag + run.data()), {"--train_file is the same file"});
    ExpectRefused(run, Simple(flag + link), {"--train_file is the same file"});
  }
  ExpectRefused(run, Simple("--timeline " + run.log()),
                {"--log_file is the same file"});
  EXPECT_GT(fs::file_size(run.data()), 0u);
}

TEST(ExitCodes, AnOutputDirectoryWithAnIndexIsRefused) {
  const TiertrainRun run;
  const TiertrainRun other(FixtureT0(), 3);
  ExpectRefused(run, Simple("--output_dir " + other.model()),
                {"--output_dir", "model.safetensors.index.json"});
}

TEST(ExitCodes, BudgetsThatDoNotFitAreNamedWithTheMend) {
  const TiertrainRun run;
  const std::string swap = " --nvme_path " + run.directory().File("swap");
  ExpectRefused(run, Simple("--device_memory 100KiB"),
                {"--device_memory", "102400", "device memory to"});
  ExpectRefused(run,
                Simple("--host_memory 4KiB --placement weights=host,optimizer=host"),
                {"--host_memory", "4096", "host memory to"});
  ExpectRefused(run, Simple("--placement optimizer=nvme" + swap + ":4KiB"),
                {"--nvme_path", "4096", "nvme"});
  ExpectRefused(run, Simple("--placement optimizer=nvme --nvme_path /proc/swap"),
                {"nvme_path", "/proc"});
}

TEST(ExitCodes, InputsThatCannotBeReadAreNamed) {
  const TiertrainRun run;
  const std::string missing = run.directory().File("missing");
  ExpectRefused(run, Simple("--train_file " + missing + ".jsonl"), {"missing.jsonl"});
  ExpectRefused(run, Simple("--eval_file " + missing + ".jsonl"), {"missing.jsonl"});
  ExpectRefused(run, Simple("--deepspeed " + missing), {"missing"});
  ExpectRefused(run, Simple("--model_name_or_path " + missing),
                {"--model_name_or_path", "missing"});
  RunRequest request = Simple("");
  request.rows.push_back("{\"input_ids\": [1, 2");
  ExpectRefused(run, request, {"data.jsonl:3"});
  request = Simple("");
  request.deepspeed["gradient_clipping"] = "much";
  ExpectRefused(run, request, {"ds.json:1", "gradient_clipping", "much"});
}

TEST(ExitCodes, ANonFiniteGradientWithoutClippingEndsTheRunAndNamesTheStep) {
  const TiertrainRun run;
  RunRequest request = Simple("--num_train_epochs 50 --max_steps -1");
  request.flags += PlacedIn(run, "nvme");
  request.deepspeed["optimizer"]["params"]["lr"] = 1e30;
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.errors.find("the gradient of step 2"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("do: lower the learning rate"), std::string::npos)
      << outcome.errors;
  EXPECT_EQ(outcome.steps.size(), 1u);
  EXPECT_EQ(run.List(), OnlyTheLog());
}

TEST(ExitCodes, TwentySkippedStepsInARowEndTheRunAndAreLogged) {
  const TiertrainRun run;
  RunRequest request = Simple("--num_train_epochs 50 --max_steps -1");
  request.flags += PlacedIn(run, "nvme");
  request.deepspeed["gradient_clipping"] = 1.0;
  request.deepspeed["optimizer"]["params"]["lr"] = 1e30;
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.errors.find("steps 2 to 21 were all skipped"), std::string::npos)
      << outcome.errors;
  ASSERT_EQ(outcome.steps.size(), 21u);
  for (size_t s = 1; s < outcome.steps.size(); ++s) {
    EXPECT_EQ(outcome.steps[s]["skipped"], true);
    EXPECT_TRUE(outcome.steps[s]["grad_norm"].is_null());
  }
  EXPECT_EQ(run.List(), OnlyTheLog());
}

TEST(ExitCodes, DataThatAreCutWhileTheyAreTrainedOnEndTheRun) {
  const TiertrainRun run;
  RunningTiertrain running =
      run.Start(Simple("--max_steps 1000000" + PlacedIn(run, "nvme")));
  ASSERT_TRUE(running.WaitForLine("step 1/"));
  fs::resize_file(run.data(), 10);
  const RunOutcome outcome = running.Finish();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_NE(outcome.errors.find("data.jsonl:"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("check the drive"), std::string::npos)
      << outcome.errors;
  EXPECT_EQ(run.List(), OnlyTheLog());
}

TEST(ExitCodes, AnInterruptedRunFinishesItsStepAndLeavesOnlyItsLog) {
  for (const int signal : {SIGINT, SIGTERM}) {
    SCOPED_TRACE(signal);
    const TiertrainRun run;
    RunningTiertrain running =
        run.Start(Simple("--max_steps 1000000" + PlacedIn(run, "nvme")));
    ASSERT_TRUE(running.WaitForLine("step 2/"));
    running.Signal(signal);
    const RunOutcome outcome = running.Finish();
    EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
    const std::string said =
        "interrupted after step " + std::to_string(outcome.steps.size()) + ";";
    EXPECT_NE(outcome.errors.find(said), std::string::npos) << outcome.errors;
    EXPECT_EQ(run.List(), OnlyTheLog());
  }
}

}  // namespace
}  // namespace strata
