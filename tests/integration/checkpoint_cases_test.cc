/// Every expected tensor comes once, from the right file and in its own dtype, or the
/// run is refused with the tensor's and the file's name. Sources are problems that
/// users of other trainers reported.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/stored_values.h"
#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kLoss = 4.7119700;  // of sequence 0, in double precision
constexpr const char* kKey = "model.layers.1.self_attn.k_proj.weight";
constexpr const char* kQuery = "model.layers.0.self_attn.q_proj.weight";
constexpr const char* kHead = "lm_head.weight";
constexpr const char* kEmbedding = "model.embed_tokens.weight";

RunRequest OneStep() { return {.rows = Sequences(0, 1), .flags = "--max_steps 1"}; }

TransformerConfig Tied() {
  TransformerConfig config = FixtureT0();
  config.tied = true;
  return config;
}

/// A run on three shards with an index.
struct Sharded : TiertrainRun {
  Sharded() : TiertrainRun(FixtureT0(), 3) {}
  std::string IndexPath() const { return model() + "/model.safetensors.index.json"; }
  void ChangeIndex(const std::function<void(Json&)>& change) const {
    Json index;
    std::ifstream(IndexPath()) >> index;
    change(index);
    std::ofstream(IndexPath()) << index.dump(1);
  }
  std::string ShardOf(const std::string& tensor) const {
    Json index;
    std::ifstream(IndexPath()) >> index;
    return index["weight_map"][tensor];
  }
};

void ChangeTensors(const std::string& path,
                   const std::function<void(std::vector<StoredValues>&)>& change) {
  auto tensors = ReadStoredValues(path);
  change(tensors);
  WriteStoredValues(path, tensors);
}

void Drop(const std::string& path, const std::string& name) {
  ChangeTensors(path, [&name](auto& tensors) {
    std::erase_if(tensors, [&name](const auto& t) { return t.spec.name == name; });
  });
}

void Add(const std::string& path, const StoredValues& tensor) {
  ChangeTensors(path, [&tensor](auto& tensors) { tensors.push_back(tensor); });
}

std::string Single(const TiertrainRun& run) {
  return run.model() + "/model.safetensors";
}

void ChangeConfig(const TiertrainRun& run, const std::function<void(Json&)>& change) {
  Json config;
  std::ifstream(run.model() + "/config.json") >> config;
  change(config);
  std::ofstream(run.model() + "/config.json") << config.dump(1);
}

TEST(CheckpointCases, ATensorThatItsShardLacksIsNamedWithTheShard) {
  const Sharded run;
  const std::string shard = run.ShardOf(kKey);
  Drop(run.model() + "/" + shard, kKey);
  ExpectRefused(run, OneStep(), {kKey, shard});
}

TEST(CheckpointCases, ATensorThatIsNowhereIsNamedWithTheIndex) {
  const Sharded run;
  Drop(run.model() + "/" + run.ShardOf(kKey), kKey);
  run.ChangeIndex([](Json& index) { index["weight_map"].erase(kKey); });
  ExpectRefused(run, OneStep(), {kKey, "model.safetensors.index.json"});
}

TEST(CheckpointCases, AStaleFileBesideAnIndexIsNeitherMixedInNorPassedOverInSilence) {
  const Sharded run;
  const TiertrainRun other(Tied());
  fs::copy_file(Single(other), Single(run));
  const RunOutcome outcome = run.Run(OneStep());
  ExpectLosses(outcome, {kLoss});
  EXPECT_NE(outcome.errors.find("model.safetensors is not read"), std::string::npos)
      << outcome.errors;
}

TEST(CheckpointCases, RotaryFrequenciesOfOldCheckpointsArePassedOver) {
  const TiertrainRun run;
  Add(Single(run),
      {{"model.layers.0.self_attn.rotary_emb.inv_freq", StoredType::kF32, {4}},
       {1, 0.1f, 0.01f, 0.001f}});
  ExpectLosses(run.Run(OneStep()), {kLoss});
}

TEST(CheckpointCases, ATensorWithoutAPlaceIsNamed) {
  const TiertrainRun run;
  Add(Single(run),
      {{"model.layers.0.self_attn.q_proj.bias", StoredType::kF32, {2}}, {1, 2}});
  ExpectRefused(run, OneStep(),
                {"model.layers.0.self_attn.q_proj.bias", "model.safetensors"});
}

TEST(CheckpointCases, ATransposedTensorIsNamedWithBothShapes) {
  const TiertrainRun run;
  ChangeTensors(Single(run), [](auto& tensors) {
    StoredValues& key = TensorNamed(tensors, kKey);
    std::swap(key.spec.shape[0], key.spec.shape[1]);
  });
  ExpectRefused(run, OneStep(), {kKey, "model.safetensors", "[32, 16]", "[16, 32]"});
}

// A tensor read in another one's dtype is noise, and its loss far off.
TEST(CheckpointCases, EveryTensorIsConvertedFromItsOwnDtype) {
  const TiertrainRun run;
  ChangeTensors(Single(run), [](auto& tensors) {
    for (StoredValues& tensor : tensors) {
      if (tensor.spec.name.find("layers.0.") != std::string::npos) {
        tensor.spec.type = StoredType::kBF16;
      } else if (tensor.spec.name.find("layers.1.") != std::string::npos) {
        tensor.spec.type = StoredType::kF16;
      }
    }
  });
  const auto stored = ReadStoredValues(Single(run));
  RunRequest request = OneStep();
  request.deepspeed["optimizer"]["params"]["lr"] = 0;
  const RunOutcome outcome = run.Run(request);
  ExpectLosses(outcome, {kLoss}, 2e-3);  // bf16 keeps eight bits of a weight
  const auto exported = run.Exported();
  for (const StoredValues& tensor : stored) {
    EXPECT_EQ(exported.at(tensor.spec.name), tensor.values) << tensor.spec.name;
  }
}

TEST(CheckpointCases, FewerLayersThanTensorsAreNamed) {
  const TiertrainRun run;
  ChangeConfig(run, [](Json& config) { config["num_hidden_layers"] = 1; });
  ExpectRefused(run, OneStep(), {"model.layers.1.", "model.safetensors"});
}

TEST(CheckpointCases, AHeadThatIsNeitherStoredNorTiedIsNamed) {
  const TiertrainRun run;
  Drop(Single(run), kHead);
  ExpectRefused(run, OneStep(), {kHead, "tie_word_embeddings"});
}

TEST(CheckpointCases, AStoredHeadOfATiedModelMustEqualTheEmbedding) {
  const TiertrainRun run(Tied());
  const auto tensors = ReadStoredValues(Single(run));
  StoredValues head;
  for (const StoredValues& tensor : tensors) {
    if (tensor.spec.name == kEmbedding) head = tensor;
  }
  head.spec.name = kHead;
  Add(Single(run), head);
  ExpectLosses(run.Run(OneStep()), {4.3647953});
  EXPECT_EQ(run.Exported().count(kHead), 0u);

  fs::remove_all(run.output());
  fs::remove(run.log());
  ChangeTensors(Single(run),
                [](auto& changed) { TensorNamed(changed, kHead).values[5] += 0.5f; });
  ExpectRefused(run, OneStep(), {kHead, kEmbedding, "tie_word_embeddings"});
}

TEST(CheckpointCases, AWrongTotalSizeIsAWarning) {
  const Sharded run;
  run.ChangeIndex([](Json& index) { index["metadata"]["total_size"] = 17; });
  const RunOutcome outcome = run.Run(OneStep());
  ExpectLosses(outcome, {kLoss});
  EXPECT_NE(outcome.errors.find("total_size is 17"), std::string::npos)
      << outcome.errors;
}

TEST(CheckpointCases, AShardOutsideOfTheDirectoryIsRefused) {
  const Sharded run;
  fs::copy_file(run.model() + "/" + run.ShardOf(kQuery),
                run.directory().File("x.safetensors"));
  run.ChangeIndex(
      [](Json& index) { index["weight_map"][kQuery] = "../x.safetensors"; });
  ExpectRefused(run, OneStep(), {kQuery, "../x.safetensors"});
}

// Head sizes are a field of config.json, and heads may be as many as key-value heads.
TEST(CheckpointCases, AnAbsentHeadSizeFollowsFromTheHeads) {
  const TiertrainRun run;
  ChangeConfig(run, [](Json& config) { config.erase("head_dim"); });
  ExpectLosses(run.Run(OneStep()), {kLoss});
}

TEST(CheckpointCases, AbsentKeyValueHeadsAreAsManyAsHeads) {
  TransformerConfig config = FixtureT0();
  config.kv_heads = 4;
  const TiertrainRun run(config);
  ChangeConfig(run, [](Json& json) { json.erase("num_key_value_heads"); });
  ExpectLosses(run.Run(OneStep()), {4.5595363});
}

TEST(CheckpointCases, AnExportKeepsItsHeadSizeAndTrainsOnFromWhereItWas) {
  TransformerConfig config = FixtureT0();
  config.head_dim = 16;
  const TiertrainRun run(config);
  RunRequest request{.rows = Sequences(0, 2), .flags = "--max_steps 2"};
  request.deepspeed["optimizer"]["params"]["betas"] = {0.0, 0.0};  // no memory
  const RunOutcome whole = run.Run(request);
  ASSERT_EQ(whole.exit_code, 0) << whole.output;

  const TiertrainRun first(config), second(config);
  request.flags = "--max_steps 1";
  request.rows = Sequences(0, 1);
  ASSERT_EQ(first.Run(request).exit_code, 0);
  Json exported;
  std::ifstream(first.output() + "/config.json") >> exported;
  EXPECT_EQ(exported["head_dim"], 16);
  fs::remove_all(second.model());
  fs::copy(first.output(), second.model());
  request.rows = Sequences(1, 1);
  ExpectLosses(second.Run(request), {whole.Loss(1)}, 0);
}

}  // namespace
}  // namespace strata
