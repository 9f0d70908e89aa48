/// What a user can get wrong ends with exit code 2, a message that names it, and
/// nothing left behind.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

RunRequest Simple(const std::string& flags = "") {
  return {.rows = {Row(Seq(0)), Row(Seq(1))}, .flags = "--max_steps 1 " + flags};
}

// C29: every expected tensor, once, from the right file.
TEST(Refusals, AMissingShardIsNamed) {
  const TiertrainRun run(FixtureT0(), 3);
  fs::remove(run.model() + "/model-00002-of-00003.safetensors");
  ExpectRefused(run, Simple(), {"model-00002-of-00003.safetensors"});
}

TEST(Refusals, MoreLayersThanTensorsAreNamed) {
  const TiertrainRun run;
  TransformerConfig config = FixtureT0();
  config.layers = 3;
  std::ofstream(run.model() + "/config.json") << FixtureConfigJson(config);
  ExpectRefused(run, Simple(), {"model.layers.2."});
}

TEST(Refusals, AWrongHeadSizeIsNamedWithBothShapes) {
  const TiertrainRun run;
  TransformerConfig config = FixtureT0();
  config.head_dim = 16;
  std::ofstream(run.model() + "/config.json") << FixtureConfigJson(config);
  ExpectRefused(run, Simple(), {"q_proj", "[64, 32]", "[32, 32]"});
}

TEST(Refusals, APickledCheckpointIsRefusedWithAHint) {
  const TiertrainRun run;
  fs::rename(run.model() + "/model.safetensors", run.model() + "/pytorch_model.bin");
  ExpectRefused(run, Simple(), {"safetensors"});
}

TEST(Refusals, AStaleSingleFileBesideAnIndexIsNotMixedIn) {
  const TiertrainRun run(FixtureT0(), 3);
  std::ofstream(run.model() + "/model.safetensors") << "stale";
  const RunOutcome outcome = run.Run(Simple());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_NEAR(outcome.Loss(0), 4.7119700, 5e-5);
}

// C39: too little data, or data cut to nothing.
TEST(Refusals, DataThatTrainNothingAreRefused) {
  const TiertrainRun run;
  ExpectRefused(run, {.rows = {}}, {"data.jsonl"});
  ExpectRefused(run, {.rows = {"", "  "}}, {"data.jsonl"});
  std::vector<int32_t> labels(40, -100);
  for (size_t i = 32; i < 40; ++i) labels[i] = 1;
  ExpectRefused(run,
                {.rows = {Row(Seq(0, 40), labels)}, .flags = "--max_seq_length 16"},
                {"max_seq_length"});
  ExpectRefused(run, {.rows = {Row(Seq(0, 65))}}, {"65", "64"});
  ExpectRefused(run, {.rows = {Row(Seq(0)), "{\"input_ids\": [1, 2, 99]}"}},
                {":2", "99"});
}

TEST(Refusals, ASampleCutToFewerTrainedTokensStillTrains) {
  const TiertrainRun run;
  std::vector<int32_t> labels(40, -100);
  for (size_t i = 10; i <= 20; ++i) labels[i] = 1;
  const RunOutcome outcome = run.Run({.rows = {Row(Seq(0, 40), labels)},
                                      .flags = "--max_seq_length 16 --max_steps 1"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 6);
}

// C32: swap folders.
TEST(Refusals, NvmePathsThatCannotBeUsedAreNamed) {
  const TiertrainRun run;
  const std::string placed = "--placement optimizer=nvme ";
  ExpectRefused(run, Simple(placed), {"nvme"});
  const std::string file = run.directory().Write("a-file", "x");
  ExpectRefused(run, Simple(placed + "--nvme_path " + file), {"a-file"});
}

TEST(Refusals, AFolderWithOtherFilesKeepsThemAndNothingOfOursStays) {
  const TiertrainRun run;
  const std::string folder = run.directory().File("with spaces and ümläuts");
  fs::create_directory(folder);
  std::ofstream(folder + "/notes.txt") << "mine";
  RunRequest request = Simple("--placement optimizer=nvme --nvme_path");
  request.arguments = {folder};
  const RunOutcome outcome = run.Run(request);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder))
    left.push_back(entry.path().filename());
  EXPECT_EQ(left, std::vector<std::string>{"notes.txt"});
}

// Budgets, flags and keys.
TEST(Refusals, ABudgetThatIsTooSmallIsRefusedWithTheCheapestChange) {
  const TiertrainRun run;
  ExpectRefused(run, Simple("--device_memory 1MiB"), {"device", "1048576", "change"});
}

TEST(Refusals, MisspelledFlagsAndKeysAreNamedWithTheNearest) {
  const TiertrainRun run;
  ExpectRefused(run, Simple("--learning_rat 1"), {"learning_rat", "--learning_rate"});
  RunRequest request = Simple();
  request.deepspeed["gradient_acumulation_steps"] = 4;
  ExpectRefused(run, request,
                {"gradient_acumulation_steps", "gradient_accumulation_steps"});
  request = Simple();
  request.deepspeed["optimizer"]["params"]["beta1"] = 0.9;
  ExpectRefused(run, request, {"beta1"});
  request = Simple();
  request.deepspeed["train_batch_size"] = 8;
  request.deepspeed["train_micro_batch_size_per_gpu"] = 2;
  ExpectRefused(run, request, {"train_batch_size", "8"});
  ExpectRefused(run, Simple("--fp16"), {"fp16"});
}

}  // namespace
}  // namespace strata
