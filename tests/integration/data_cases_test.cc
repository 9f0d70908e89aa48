/// Samples that are few, short, cut or without anything to train: counted, said, and
/// never a run that "succeeds" without having trained.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

constexpr int32_t kIgnored = -100;

bool Says(const RunOutcome& outcome, const std::string& text) {
  return outcome.output.find(text) != std::string::npos;
}

RunRequest Batches(int rows, int micro_batch, const std::string& flags) {
  RunRequest request{.rows = Sequences(0, rows), .flags = flags};
  request.deepspeed["train_micro_batch_size_per_gpu"] = micro_batch;
  return request;
}

// One sample where a step takes eight: trained as a partial step, as its own mean.
TEST(DataCases, FewerSamplesThanAStepTrainAPartialStep) {
  const TiertrainRun run;
  const RunOutcome outcome = run.Run(Batches(1, 8, "--num_train_epochs 1"));
  ExpectLosses(outcome, {4.7119700});
  ExpectNear(outcome.Norm(0), 5.1074216);
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 15);
}

TEST(DataCases, FewerSamplesThanAStepAreRefusedWherePartialStepsAreDropped) {
  ExpectRefused(TiertrainRun(),
                Batches(1, 8, "--num_train_epochs 1 --dataloader_drop_last true"),
                {"1 row", "8", "dataloader_drop_last"});
}

TEST(DataCases, PartialStepsAreKeptOrDroppedAsAsked) {
  const RunOutcome kept = TiertrainRun().Run(Batches(10, 4, "--num_train_epochs 1"));
  ASSERT_EQ(kept.exit_code, 0) << kept.output;
  ASSERT_EQ(kept.steps.size(), 3u);
  EXPECT_EQ(kept.steps[2]["trained_tokens"], 2 * 15);
  EXPECT_EQ(kept.steps[2]["trained_tokens_total"], 10 * 15);

  const RunOutcome dropped = TiertrainRun().Run(
      Batches(10, 4, "--num_train_epochs 1 --dataloader_drop_last true"));
  ASSERT_EQ(dropped.exit_code, 0) << dropped.output;
  ASSERT_EQ(dropped.steps.size(), 2u);
  EXPECT_TRUE(Says(dropped, "2 rows of an epoch are left out")) << dropped.output;
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(dropped.Loss(i), kept.Loss(i));
}

TEST(DataCases, NoStepsAreRefused) {
  ExpectRefused(TiertrainRun(), Batches(1, 1, "--max_steps 0"), {"--max_steps", "0"});
  ExpectRefused(TiertrainRun(), Batches(1, 1, "--num_train_epochs 0"),
                {"--num_train_epochs", "0"});
}

TEST(DataCases, SamplesCutToNothingAreCountedAndTheOthersTrain) {
  std::vector<int32_t> late(40, kIgnored), middle(40, kIgnored);
  for (size_t i = 32; i < 40; ++i) late[i] = 1;
  for (size_t i = 10; i <= 20; ++i) middle[i] = 1;
  const RunOutcome outcome = TiertrainRun().Run(
      {.rows = {Row(Seq(0, 40), late), Row(Seq(0, 40), middle), Row(Seq(1, 8))},
       .flags = "--num_train_epochs 1 --max_seq_length 16"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  ASSERT_EQ(outcome.steps.size(), 2u);
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 6);
  EXPECT_EQ(outcome.steps[1]["trained_tokens"], 7);
  EXPECT_TRUE(Says(outcome, "3 samples read, 2 used, 1 dropped, 1 truncated"))
      << outcome.output;
}

TEST(DataCases, DataWithoutATrainedTokenAreRefused) {
  const std::vector<int32_t> ignored(16, kIgnored);
  ExpectRefused(
      TiertrainRun(),
      {.rows = {Row(Seq(0), ignored), Row(Seq(1), ignored)}, .flags = "--max_steps 1"},
      {"data.jsonl", "no trainable tokens", "2 samples"});
  ExpectRefused(TiertrainRun(), {.rows = {Row(Seq(0, 1))}, .flags = "--max_steps 1"},
                {"data.jsonl", "no trainable tokens"});
}

// Nothing follows the only token of a sample, so it is no target.
TEST(DataCases, ASampleOfOneTokenCountsForNothing) {
  RunRequest request{.rows = {Row(Seq(0, 1)), Row(Seq(1))}, .flags = "--max_steps 1"};
  request.deepspeed["gradient_accumulation_steps"] = 2;
  const RunOutcome outcome = TiertrainRun().Run(request);
  ExpectLosses(outcome, {4.4264583});
  ExpectNear(outcome.Norm(0), 5.3098127);
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 15);
}

// A whole step of nothing between others: counted, said, and without any effect.
TEST(DataCases, AnEmptyStepChangesNeitherScheduleNorLaterSteps) {
  const std::vector<int32_t> ignored(16, kIgnored);
  RunRequest request{.rows = {Row(Seq(0)), Row(Seq(5), ignored), Row(Seq(1))},
                     .flags = "--max_steps 3"};
  request.deepspeed["gradient_clipping"] = 1.0;
  const TiertrainRun with, without;
  const RunOutcome outcome = with.Run(request);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  ASSERT_EQ(outcome.steps.size(), 3u);
  EXPECT_EQ(outcome.steps[1]["skipped"], true);
  EXPECT_TRUE(outcome.steps[1]["loss"].is_null());
  EXPECT_TRUE(outcome.steps[1]["grad_norm"].is_null());
  EXPECT_EQ(outcome.steps[1]["trained_tokens"], 0);
  EXPECT_EQ(outcome.steps[2]["trained_tokens_total"], 30);
  EXPECT_TRUE(Says(outcome, "warning: step 2 has no trained token")) << outcome.output;

  request.rows = Sequences(0, 2);
  request.flags = "--max_steps 2";
  const RunOutcome plain = without.Run(request);
  EXPECT_EQ(outcome.Loss(2), plain.Loss(1));
  EXPECT_EQ(with.ExportedBytes(), without.ExportedBytes());
}

// Documents of one row train as the same documents in rows of their own: the loss, and
// through the norm and the weights the gradient.
TEST(DataCases, APackedRowHasTheGradientOfItsDocuments) {
  std::vector<int32_t> packed = Seq(20, 5);
  for (const int32_t token : Seq(21, 9)) packed.push_back(token);
  for (const int32_t token : Seq(22, 2)) packed.push_back(token);
  const TiertrainRun one_row, three_rows;
  RunRequest request{.rows = {Row(packed, {}, {5, 9, 2})}, .flags = "--max_steps 1"};
  const RunOutcome together = one_row.Run(request);
  request.rows = {Row(Seq(20, 5)), Row(Seq(21, 9)), Row(Seq(22, 2))};
  request.deepspeed["train_micro_batch_size_per_gpu"] = 3;
  const RunOutcome apart = three_rows.Run(request);
  ExpectLosses(together, {4.1623511});
  ExpectLosses(apart, {4.1623511});
  EXPECT_EQ(together.steps[0]["trained_tokens"], 13);
  EXPECT_EQ(apart.steps[0]["trained_tokens"], 13);
  ExpectNear(together.Norm(0), apart.Norm(0));
}

}  // namespace
}  // namespace strata
