/// Law 3 from outside: a run that is cut in two by a checkpoint leaves the log, the
/// weights and the moments of one that is not.

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "model/checkpoint.h"
#include "tests/support/checkpoints.h"
#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

RunRequest Request(const std::string& flags, int rows = 12) {
  RunRequest request{.rows = Sequences(0, rows), .flags = flags};
  request.deepspeed["gradient_accumulation_steps"] = 2;
  return request;
}

std::vector<std::string> LogOf(const RunOutcome& outcome) {
  std::vector<std::string> lines;
  for (nlohmann::json line : outcome.steps) {
    for (const char* key : {"seconds", "tokens_per_second", "lanes", "stall_seconds",
                            "device_bytes", "host_bytes", "nvme_bytes"}) {
      line.erase(key);
    }
    lines.push_back(line.dump());
  }
  return lines;
}

/// Runs `request` whole, and cut after `cut` steps of `total` with other flags for the
/// second half, after a kill; everything must come out the same. `swap_folder` goes in
/// between.
void ExpectSame(RunRequest request, int cut, int total, const std::string& first_flags,
                const std::string& second_flags, const std::string& swap_folder = "") {
  const TiertrainRun whole_run, run;
  const std::string flags = request.flags;
  request.flags =
      absl::StrCat(flags, first_flags, " --save_steps 100 --max_steps ", total);
  const RunOutcome whole = whole_run.Run(request);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;

  // The schedule knows the total from the start, as when a run is killed.
  request.flags =
      absl::StrCat(flags, first_flags, " --save_steps ", cut, " --max_steps ", total);
  {
    RunningTiertrain running = run.Start(request);
    ASSERT_TRUE(running.WaitForLine(absl::StrCat("saved ", run.output())));
    running.Signal(SIGKILL);
    ASSERT_EQ(running.Finish().exit_code, 128 + SIGKILL);
  }
  fs::remove_all(swap_folder);  // nothing in it is needed
  request.flags =
      absl::StrCat(flags, second_flags, " --save_steps 100 --max_steps ", total,
                   " --resume_from_checkpoint ", run.output(), "/checkpoint-", cut);
  const RunOutcome resumed = run.Run(request);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(LogOf(resumed), LogOf(whole));
  EXPECT_EQ(run.ExportedBytes(), whole_run.ExportedBytes());
  const std::string last = absl::StrCat("/checkpoint-", total);
  EXPECT_EQ(TensorSums(run.output() + last), TensorSums(whole_run.output() + last));
}

TEST(Resume, AnFp32RunEqualsTheWholeOneAndTheValueComputedElsewhere) {
  const TiertrainRun run;
  ASSERT_EQ(run.Run(Request("--max_steps 3 --save_steps 3")).exit_code, 0);
  const RunOutcome resumed =
      run.Run(Request("--max_steps 6 --save_steps 3 --resume_from_checkpoint latest"));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  ASSERT_EQ(resumed.steps.size(), 6u);
  ExpectNear(resumed.Loss(3), 4.5666121);
  ExpectSame(Request(""), 3, 6, "", "");
}

TEST(Resume, ABf16RunWithClippingEqualsTheWholeOne) {
  RunRequest request = Request(" --bf16");
  request.deepspeed["gradient_clipping"] = 3.0;
  ExpectSame(request, 3, 6, "", "");
}

TEST(Resume, AnyOtherPlacementBudgetAndBackendGoesOn) {
  const TiertrainRun scratch;
  for (const std::string precision : {"", " --bf16"}) {
    RunRequest request = Request(precision);
    request.deepspeed["gradient_clipping"] = 3.0;
    const std::string nvme = PlacedIn(scratch, "nvme"),
                      swap = scratch.directory().File("swap");
    ExpectSame(request, 2, 5, nvme, nvme + " --io_backend threads", swap);
    ExpectSame(request, 2, 5, nvme, PlacedIn(scratch, "host"), swap);
    ExpectSame(request, 2, 5, PlacedIn(scratch, "device"),
               nvme + " --device_memory 10MiB --host_memory 10MiB");
    EXPECT_FALSE(fs::exists(swap));
  }
}

TEST(Resume, InTheMiddleOfAShuffledEpochWithAPartialStepAtItsEnd) {
  for (const int cut : {1, 3, 4, 5, 8}) {
    SCOPED_TRACE(cut);
    ExpectSame(Request(" --shuffle=true --lr_scheduler_type linear", 7), cut, 10, "",
               "");
  }
}

TEST(Resume, AfterAStepThatWasSkipped) {
  RunRequest request = Request("");
  request.rows[2] = Row(Seq(2), std::vector<int32_t>(16, -100));
  request.rows[3] = Row(Seq(3), std::vector<int32_t>(16, -100));
  ExpectSame(request, 2, 6, "", "");
}

TEST(Resume, TheNumberOfSkippedStepsInARowIsRemembered) {
  const TiertrainRun run;
  RunRequest request = Request("--save_steps 15 --max_steps 15", 1);
  request.deepspeed["gradient_accumulation_steps"] = 1;
  request.deepspeed["gradient_clipping"] = 1.0;
  request.deepspeed["optimizer"]["params"]["lr"] = 1e30;
  ASSERT_EQ(run.Run(request).exit_code, 0);
  request.flags = "--save_steps 30 --max_steps 30 --resume_from_checkpoint latest";
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("steps 2 to 21 were all skipped"), std::string::npos)
      << outcome.errors;
  EXPECT_FALSE(fs::exists(run.output() + "/checkpoint-21"));
}

TEST(Resume, TheLogLosesTheStepsAfterTheCheckpointAndHalfALine) {
  const TiertrainRun run;
  const RunOutcome first = run.Run(Request("--max_steps 5 --save_steps 2"));
  ASSERT_EQ(first.exit_code, 0);
  std::ofstream(run.log(), std::ios::app) << "{\"step\": 6, \"lo";
  const RunOutcome resumed = run.Run(Request(absl::StrCat(
      "--max_steps 6 --resume_from_checkpoint ", run.output(), "/checkpoint-2")));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  std::vector<int> steps;
  for (const auto& line : resumed.steps) steps.push_back(line["step"]);
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(resumed.steps[0].dump(), first.steps[0].dump());
  EXPECT_EQ(resumed.steps[5]["trained_tokens_total"], 6 * 30);
}

TEST(Resume, ALogOfSomethingElseIsNotCut) {
  const TiertrainRun run;
  ASSERT_EQ(run.Run(Request("--max_steps 2 --save_steps 2")).exit_code, 0);
  const RunOutcome resumed =
      run.Run(Request("--max_steps 4 --resume_from_checkpoint latest --log_file " +
                      run.directory().Write("notes", "my notes\nmore of them\n")));
  EXPECT_EQ(resumed.exit_code, 1);
  EXPECT_NE(resumed.errors.find("notes:1"), std::string::npos) << resumed.errors;
  EXPECT_EQ(fs::file_size(run.directory().File("notes")), 22u);
}

TEST(Resume, MaxStepsIsTheTotal) {
  const TiertrainRun run;
  ASSERT_EQ(run.Run(Request("--max_steps 3 --save_steps 3")).exit_code, 0);
  const std::string before = run.ExportedBytes();
  const RunOutcome outcome =
      run.Run(Request("--max_steps 3 --resume_from_checkpoint latest"));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.steps.size(), 3u);
  EXPECT_EQ(run.ExportedBytes(), before);
  ExpectRefused(run, Request("--max_steps 2 --resume_from_checkpoint latest"),
                {"checkpoint-3 is after step 3", "ends after step 2"});
}

TEST(Resume, ALongerScheduleIsThatOfTheNewTotalAndSaid) {
  const TiertrainRun run;
  const std::string linear = " --lr_scheduler_type linear --save_steps 3 --max_steps ";
  ASSERT_EQ(run.Run(Request(linear + "3")).exit_code, 0);
  const RunOutcome resumed =
      run.Run(Request(linear + "6 --resume_from_checkpoint latest"));
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_NE(resumed.errors.find("from step 4 on schedule_total_steps is 6 and was 3"),
            std::string::npos)
      << resumed.errors;
  const double expected[] = {1e-3, 1e-3 * 2 / 3, 1e-3 / 3,   // of 3 steps
                             5e-4, 1e-3 / 3,     1e-3 / 6};  // of 6
  for (size_t s = 0; s < 6; ++s) {
    EXPECT_NEAR(resumed.steps[s]["lr"], expected[s], 1e-9) << s;
  }
}

TEST(Resume, OtherDataAnotherBatchAndAnotherModelAreRefused) {
  const TiertrainRun run;
  ASSERT_EQ(run.Run(Request("--max_steps 2 --save_steps 2")).exit_code, 0);
  const std::string resume = " --max_steps 4 --resume_from_checkpoint latest";
  ExpectRefused(run, Request(resume, 11), {"checkpoint-2", "rows is 11 and was 12"});
  ExpectRefused(run, Request(resume + " --seed 7"), {"seed is 7 and was 42"});
  ExpectRefused(run, Request(resume + " --shuffle=true"), {"shuffle is true"});
  RunRequest request = Request(resume);
  request.deepspeed["gradient_accumulation_steps"] = 3;
  ExpectRefused(run, request, {"gradient_accumulation_steps is 3 and was 2"});
  ExpectRefused(run, Request(resume + " --bf16"), {"weight is 'F32' there"});

  TransformerConfig other = FixtureT0();
  other.rope.theta = 5000;
  const TiertrainRun other_run(other);
  ExpectRefused(other_run,
                Request("--max_steps 4 --resume_from_checkpoint " + run.output() +
                        "/checkpoint-2"),
                {"config.json", "another model"});
}

TEST(Resume, OtherNumericsAreRefusedNamingBothValuesOrAllowed) {
  const TiertrainRun run;
  RunRequest request = Request("--max_steps 2 --save_steps 2");
  ASSERT_EQ(run.Run(request).exit_code, 0);
  const std::string directory = run.output() + "/checkpoint-2";
  ChangeManifest(directory, [](nlohmann::ordered_json& manifest) {
    manifest["numerics"]["decides"]["cpu.processor"] = "Abacus 3000";
  });
  const std::string resume = "--max_steps 4 --resume_from_checkpoint latest";
  ExpectRefused(run, Request(resume),
                {"cpu.processor is 'Abacus 3000' there", directory});
  const RunOutcome allowed = run.Run(Request(resume + " --allow_other_numerics"));
  EXPECT_EQ(allowed.exit_code, 0) << allowed.output;
  EXPECT_NE(allowed.errors.find("Abacus 3000"), std::string::npos);
}

TEST(Resume, ThreadsDecideNoBitOfFp32) {
  ExpectSame(Request(""), 2, 4, " --threads 1", " --threads 3");
}

TEST(Resume, ThreadsOfABf16RunAreTheCheckpointsUnlessOthersAreTyped) {
  const TiertrainRun run;
  ASSERT_EQ(
      run.Run(Request("--bf16 --threads 3 --max_steps 2 --save_steps 2")).exit_code, 0);
  const std::string resume = "--bf16 --max_steps 4 --resume_from_checkpoint latest ";
  ASSERT_EQ(run.Run(Request(resume + "--threads 0 --save_steps 4")).exit_code, 0);
  const auto manifest = ReadManifest(run.output() + "/checkpoint-4");
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  for (const NumericsEntry& entry : manifest->numerics.entries) {
    if (entry.name != "cpu.threads") continue;
    EXPECT_EQ(entry.value, "3");
    if (!entry.decides_bits) continue;  // no oneDNN for BF16 here
    ExpectRefused(run, Request(resume + "--threads 2"),
                  {"cpu.threads is '3' there and '2' here"});
  }
}

TEST(Resume, ANumericsFileHoldsARunToIt) {
  const TiertrainRun run;
  const std::string file = run.directory().File("numerics.json");
  const std::string flags = "--max_steps 1 --numerics " + file;
  ExpectRefused(run, Request(flags), {"numerics.json"});
  ASSERT_EQ(run.Run(Request(flags + " --autotune")).exit_code, 0);
  ASSERT_EQ(run.Run(Request(flags)).exit_code, 0);
  ExpectRefused(run, Request(flags + " --bf16"), {"weight is 'F32' there", file});
  std::string text = FileText(file);
  text.replace(text.find("F32"), 3, "F33");
  std::ofstream(file) << text;
  ExpectRefused(run, Request(flags), {file, "hash"});
}

}  // namespace
}  // namespace strata
