/// Problems that users of other trainers reported, each with the value that is right.
/// The values were computed in double precision by an independent program.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

constexpr double kTolerance = 1e-5;  // fp32, relative
constexpr int32_t kIgnored = -100;

double ParameterNorm(const TiertrainRun& run) {
  double squares = 0;
  for (const auto& [name, values] : run.Exported()) {
    for (const float value : values) squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

const char* const kPlacements[] = {
    "--placement optimizer=device,weights=device",
    "--placement optimizer=host,weights=host,gradients=host",
    "--placement optimizer=nvme,weights=nvme,gradients=nvme,activations=nvme"};

/// The placement's flags; the drive is a folder of the test's own.
std::string Placed(const TiertrainRun& run, const char* placement) {
  return std::string(placement) + " --nvme_path " + run.directory().File("swap") +
         ":64MiB";
}

// C21: what Adam, AdamW and eps mean, on each tier.
struct OptimizerCase {
  const char* name;
  nlohmann::json optimizer;
  std::vector<double> losses;
  double parameter_norm;
};

TEST(FieldValues, AdamVariantsAreThoseOfPyTorchOnEveryTier) {
  const auto params = [](double decay, double eps) {
    return nlohmann::json{
        {"lr", 1e-2}, {"betas", {0.9, 0.999}}, {"eps", eps}, {"weight_decay", decay}};
  };
  nlohmann::json coupled = params(0.1, 1e-8);
  coupled["adam_w_mode"] = false;
  const std::vector<OptimizerCase> cases = {
      {"AdamW",
       {{"type", "AdamW"}, {"params", params(0.1, 1e-8)}},
       {4.7119700, 4.3567891, 4.4153464},
       23.9246288},
      {"Adam with adam_w_mode false",
       {{"type", "Adam"}, {"params", coupled}},
       {4.7119700, 4.2808294, 4.3595895},
       21.9284749},
      {"Adam, which DeepSpeed takes for AdamW",
       {{"type", "Adam"}, {"params", params(0.1, 1e-8)}},
       {4.7119700, 4.3567891, 4.4153464},
       23.9246288},
      {"eps outside of the root, after bias correction",
       {{"type", "AdamW"}, {"params", params(0, 1e-3)}},
       {4.7119700, 4.3485763, 4.4145213},
       0},
  };
  for (const OptimizerCase& c : cases) {
    for (const char* placement : kPlacements) {
      SCOPED_TRACE(std::string(c.name) + " " + placement);
      const TiertrainRun run;
      RunRequest request{.rows = Sequences(0, 3), .flags = "--max_steps 3"};
      request.flags += " " + Placed(run, placement);
      request.deepspeed["optimizer"] = c.optimizer;
      ExpectLosses(run.Run(request), c.losses);
      if (c.parameter_norm > 0) ExpectNear(ParameterNorm(run), c.parameter_norm, 1e-6);
    }
  }
}

// C20: clipping is global, and the logged norm is the one before it.
TEST(FieldValues, ClippingIsGlobalAndVisibleInEveryPrecisionAndTier) {
  for (const bool bf16 : {false, true}) {
    for (const char* placement : kPlacements) {
      SCOPED_TRACE(std::string(placement) + (bf16 ? " bf16" : " fp32"));
      const TiertrainRun run;
      RunRequest request{.rows = Sequences(0, 3), .flags = "--max_steps 3"};
      request.flags += " " + Placed(run, placement);
      request.deepspeed["gradient_clipping"] = 0.1;
      request.deepspeed["optimizer"]["params"]["lr"] = 1e-2;
      request.deepspeed["optimizer"]["params"]["eps"] = 1e-2;
      if (bf16) request.deepspeed["bf16"] = {{"enabled", true}};
      const RunOutcome outcome = run.Run(request);
      const double tolerance = bf16 ? 0.02 : kTolerance;
      ExpectLosses(outcome, {4.7119700, 4.4179535, 4.5000984}, tolerance);
      ExpectNear(outcome.Norm(0), 5.1074216, tolerance);
      ExpectNear(outcome.Norm(1), 5.3476632, tolerance);
      ExpectNear(outcome.Norm(2), 6.3977633, tolerance);
      EXPECT_TRUE(outcome.steps[0]["clipped"]);
      if (!bf16) ExpectNear(ParameterNorm(run), 23.9125689, 1e-6);
    }
  }
}

// C01: one token-weighted mean over the step.
TEST(FieldValues, AccumulatedLossIsOneMeanOverTokens) {
  std::vector<int32_t> labels = Seq(0);
  for (size_t i = 0; i + 3 < labels.size(); ++i) labels[i] = kIgnored;
  const std::vector<std::string> rows = {Row(Seq(0), labels), Row(Seq(1))};
  for (const bool one_batch : {false, true}) {
    const TiertrainRun run;
    RunRequest request{.rows = rows, .flags = "--max_steps 1"};
    request.deepspeed["train_micro_batch_size_per_gpu"] = one_batch ? 2 : 1;
    request.deepspeed["gradient_accumulation_steps"] = one_batch ? 1 : 2;
    const RunOutcome outcome = run.Run(request);
    ExpectLosses(outcome, {4.4547072});
    ExpectNear(outcome.Norm(0), 5.0425725);
    EXPECT_EQ(outcome.steps[0]["trained_tokens"], 18);
    const auto weights = run.Exported();
    const auto& query = weights.at("model.layers.0.self_attn.q_proj.weight");
    EXPECT_NEAR(query[0], -0.00763998, 1e-7);
    EXPECT_NEAR(query[1], 0.23685381, 1e-7);
  }
}

TEST(FieldValues, TheLastPartialStepIsAppliedWhole) {
  const TiertrainRun run;
  RunRequest request{.rows = Sequences(0, 3), .flags = "--num_train_epochs 1"};
  request.deepspeed["gradient_accumulation_steps"] = 2;
  const RunOutcome outcome = run.Run(request);
  ASSERT_EQ(outcome.steps.size(), 2) << outcome.output;
  ExpectNear(outcome.Loss(1), 4.5083388);
  ExpectNear(outcome.Norm(1), 6.5120960);
}

// C05: documents of a packed row do not see each other.
TEST(FieldValues, PackedDocumentsAreTheSameAsSeparateOnes) {
  std::vector<int32_t> packed = Seq(20, 5), other = Seq(23, 8);
  for (const int32_t token : Seq(21, 9)) packed.push_back(token);
  for (const int32_t token : Seq(22, 2)) packed.push_back(token);
  for (const int32_t token : Seq(24, 8)) other.push_back(token);
  const TiertrainRun run;
  const RunOutcome outcome =
      run.Run({.rows = {Row(packed, {}, {5, 9, 2})}, .flags = "--max_steps 1"});
  ExpectLosses(outcome, {4.1623511});
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 13);
  // The second row of a batch is what it is as the first one.
  double losses[2];
  for (const bool swapped : {false, true}) {
    RunRequest request{.rows = {Row(packed, {}, {5, 9, 2}), Row(other, {}, {8, 8})},
                       .flags = "--max_steps 1"};
    if (swapped) std::swap(request.rows[0], request.rows[1]);
    request.deepspeed["train_micro_batch_size_per_gpu"] = 2;
    losses[swapped] = TiertrainRun().Run(request).Loss(0);
  }
  ExpectNear(losses[0], losses[1], 1e-6);
}

// C07: a tied tensor is one tensor.
TEST(FieldValues, TiedEmbeddingsAreOneTensorWithOneUpdate) {
  TransformerConfig config = FixtureT0();
  config.tied = true;
  for (const char* placement : kPlacements) {
    const TiertrainRun run(config);
    RunRequest request{.rows = Sequences(0, 6), .flags = "--max_steps 3"};
    request.flags += " " + Placed(run, placement);
    request.deepspeed["gradient_accumulation_steps"] = 2;
    const RunOutcome outcome = run.Run(request);
    ExpectLosses(outcome, {4.3650760, 4.5842597, 4.6642996});
    EXPECT_NE(outcome.output.find("17664 parameters"), std::string::npos);
    EXPECT_EQ(run.Exported().count("lm_head.weight"), 0u);
  }
  const TiertrainRun run(config);
  const RunOutcome one = run.Run({.rows = Sequences(0, 1), .flags = "--max_steps 1"});
  ExpectLosses(one, {4.3647953});
  ExpectNear(one.Norm(0), 4.6578201);
}

// C11: head_dim is a field.
TEST(FieldValues, HeadSizeIsAFieldOfItsOwn) {
  const auto check = [](const TransformerConfig& config, double loss, double norm,
                        const std::string& parameters) {
    const TiertrainRun run(config);
    const RunOutcome outcome =
        run.Run({.rows = Sequences(0, 1), .flags = "--max_steps 1"});
    ExpectLosses(outcome, {loss});
    if (norm > 0) ExpectNear(outcome.Norm(0), norm);
    EXPECT_NE(outcome.output.find(parameters + " parameters"), std::string::npos);
  };
  TransformerConfig config = FixtureT0();
  check(config, 4.7119700, 5.1074216, "19808");
  config.head_dim = 16;
  check(config, 5.0456805, 4.9816577, "25952");
  config = FixtureT0();
  config.hidden = 36;
  config.heads = 8;
  config.head_dim = 4;
  check(config, 4.0955267, 7.7586228, "21132");
  config = FixtureT0();
  config.kv_heads = 4;
  check(config, 4.5595363, 0, "21856");
}

// C14: a micro-batch with nothing to learn.
TEST(FieldValues, AMicroBatchWithoutTrainedTokensCountsForNothing) {
  const std::vector<int32_t> ignored(16, kIgnored);
  RunRequest request{.rows = {Row(Seq(0), ignored), Row(Seq(1))},
                     .flags = "--max_steps 1"};
  request.deepspeed["gradient_accumulation_steps"] = 2;
  const RunOutcome outcome = TiertrainRun().Run(request);
  ExpectLosses(outcome, {4.4264583});
  ExpectNear(outcome.Norm(0), 5.3098127);
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 15);
}

TEST(FieldValues, AStepWithoutTrainedTokensLeavesEveryWeightAsItWas) {
  const std::vector<int32_t> ignored(16, kIgnored);
  RunRequest request{.rows = {Row(Seq(0), ignored), Row(Seq(1))},
                     .flags = "--max_steps 1"};
  const TiertrainRun run;
  const RunOutcome outcome = run.Run(request);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  ASSERT_EQ(outcome.steps.size(), 1u);
  EXPECT_TRUE(outcome.steps[0]["skipped"]);
  EXPECT_TRUE(outcome.steps[0]["loss"].is_null());
  EXPECT_EQ(outcome.steps[0]["trained_tokens"], 0);
  for (const auto& [name, values] : run.Exported()) {
    const std::vector<float> before = FixtureTensor(
        {name, values.size() == 32
                   ? std::vector<int64_t>{32}
                   : std::vector<int64_t>{static_cast<int64_t>(values.size()), 1}});
    EXPECT_EQ(values, before) << name;
  }
}

// Weights cross the link as often for eight micro-batches as for one.
TEST(FieldValues, WeightBytesOnTheLinkDoNotDependOnTheNumberOfMicroBatches) {
  constexpr int64_t kInputBytes = 4096;  // of a micro-batch of T0, padded to a page
  const auto weight_bytes = [](int micro_batches) {
    const TiertrainRun run;
    RunRequest request{
        .rows = Sequences(0, 2 * micro_batches),
        .flags =
            "--max_steps 2 --placement "
            "weights=host,optimizer=device,gradients=device,activations=device"};
    request.deepspeed["gradient_accumulation_steps"] = micro_batches;
    request.deepspeed["gradient_clipping"] = 1.0;
    const RunOutcome outcome = run.Run(request);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const int64_t bytes = outcome.steps.at(1)["lanes"]["host-to-device"]["bytes"];
    return bytes - micro_batches * kInputBytes;
  };
  const int64_t once = weight_bytes(1);
  EXPECT_GT(once, 19808 * 4);
  EXPECT_EQ(weight_bytes(8), once);
}

}  // namespace
}  // namespace strata
