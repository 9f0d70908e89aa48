#include "model/hf_checkpoint.h"

#include <absl/strings/match.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "model/safetensors_writer.h"
#include "model/stored_floats.h"
#include "model/text_file.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kShard2 = "model-00002-of-00003.safetensors";

// T0 in a directory, whose files a test then damages.
class HfCheckpointTest : public testing::Test {
 protected:
  void WriteModel(const TransformerConfig& config, int shards) {
    ASSERT_TRUE(WriteFixture(directory_.path(), config, shards).ok());
  }

  // The tensors of the config, each in its own type and possibly with other contents.
  struct Tensor {
    TensorShape shape;
    StoredType type = StoredType::kF32;
    float factor = 1;
  };
  static std::vector<Tensor> Tensors(const TransformerConfig& config) {
    std::vector<Tensor> tensors;
    for (TensorShape& shape : TensorsOf(config)) tensors.push_back({std::move(shape)});
    return tensors;
  }
  void WriteFile(const std::string& name, const std::vector<Tensor>& tensors) {
    std::vector<StoredTensorSpec> specs;
    for (const Tensor& tensor : tensors) {
      specs.push_back({tensor.shape.name, tensor.type, tensor.shape.shape});
    }
    auto writer = SafetensorsWriter::Create(directory_.File(name), specs, {});
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const Tensor& tensor : tensors) {
      std::vector<float> values = FixtureTensor(tensor.shape);
      for (float& value : values) value *= tensor.factor;
      std::vector<std::byte> bytes(values.size() * SizeOf(tensor.type));
      StoredFromFloats(tensor.type, values, bytes);
      ASSERT_TRUE((*writer)->Append(tensor.shape.name, bytes).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  void EditIndex(absl::string_view from, absl::string_view to) {
    const auto text = ReadTextFile(directory_.File(kIndex));
    ASSERT_TRUE(text.ok());
    ASSERT_TRUE(absl::StrContains(*text, from));
    directory_.Write(kIndex, absl::StrReplaceAll(*text, {{from, to}}));
  }

  absl::Status OpenAndVerify(const TransformerConfig& config) {
    auto checkpoint = HfCheckpoint::Open(directory_.path());
    if (!checkpoint.ok()) return checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    return checkpoint_->Verify(config);
  }
  void ExpectRefused(const TransformerConfig& config,
                     std::initializer_list<const char*> named) {
    const absl::Status status = OpenAndVerify(config);
    ASSERT_FALSE(status.ok());
    for (const char* piece : named) {
      EXPECT_TRUE(absl::StrContains(status.message(), piece))
          << piece << ": " << status;
    }
  }

  TemporaryDirectory directory_;
  std::unique_ptr<HfCheckpoint> checkpoint_;
};

TEST_F(HfCheckpointTest, AMissingShardIsRefusedByTensorAndFile) {
  WriteModel(FixtureT0(), 3);
  std::filesystem::remove(directory_.File(kShard2));
  ExpectRefused(FixtureT0(), {kShard2, "model.layers.0", kIndex});
}

TEST_F(HfCheckpointTest, ATensorThatItsShardLacksIsRefused) {
  WriteModel(FixtureT0(), 3);
  EditIndex("model.norm.weight", "model.norm2.weight");
  ExpectRefused(FixtureT0(),
                {"'model.norm2.weight' is not in", "model-00003-of-00003"});
}

TEST_F(HfCheckpointTest, ATensorMissingEverywhereIsRefused) {
  auto tensors = Tensors(FixtureT0());
  std::erase_if(tensors, [](const Tensor& tensor) {
    return tensor.shape.name == "model.layers.1.self_attn.k_proj.weight";
  });
  WriteFile("model.safetensors", tensors);
  ExpectRefused(FixtureT0(), {"'model.layers.1.self_attn.k_proj.weight' [16, 32]",
                              "model.safetensors"});
}

TEST_F(HfCheckpointTest, TheIndexWinsOverAStaleSingleFile) {
  WriteModel(FixtureT0(), 3);
  auto stale = Tensors(FixtureT0());
  for (Tensor& tensor : stale) tensor.factor = 2;
  WriteFile("model.safetensors", stale);
  ASSERT_TRUE(OpenAndVerify(FixtureT0()).ok());
  ASSERT_EQ(checkpoint_->warnings().size(), 1u);
  EXPECT_TRUE(
      absl::StrContains(checkpoint_->warnings()[0], "model.safetensors is not read"));
  const TensorSource* embedding = checkpoint_->Find("model.embed_tokens.weight");
  ASSERT_NE(embedding, nullptr);
  float first = 0;
  ASSERT_TRUE(ReadFloats(*embedding->file, *embedding->info, 0, {&first, 1}).ok());
  EXPECT_FLOAT_EQ(first, 0.24700631f);
}

TEST_F(HfCheckpointTest, StoredRotaryFrequenciesArePassedOver) {
  auto tensors = Tensors(FixtureT0());
  tensors.push_back({{"model.layers.0.self_attn.rotary_emb.inv_freq", {4}}});
  WriteFile("model.safetensors", tensors);
  EXPECT_TRUE(OpenAndVerify(FixtureT0()).ok());
}

TEST_F(HfCheckpointTest, AnUnknownTensorIsRefused) {
  auto tensors = Tensors(FixtureT0());
  tensors.push_back({{"model.layers.0.self_attn.q_proj.bias", {32}}});
  WriteFile("model.safetensors", tensors);
  ExpectRefused(FixtureT0(),
                {"'model.layers.0.self_attn.q_proj.bias'", "has no place"});
}

TEST_F(HfCheckpointTest, AnotherShapeIsRefusedWithBoth) {
  TransformerConfig other = FixtureT0();
  other.head_dim = 16;
  WriteModel(FixtureT0(), 1);
  ExpectRefused(other, {"'model.layers.0.self_attn.q_proj.weight'", "F32 [32, 32]",
                        "[64, 32]", "and 3 more"});
}

TEST_F(HfCheckpointTest, EachTensorIsConvertedFromItsOwnType) {
  auto tensors = Tensors(FixtureT0());
  for (Tensor& tensor : tensors) {
    if (absl::StrContains(tensor.shape.name, "layers.0"))
      tensor.type = StoredType::kBF16;
    if (absl::StrContains(tensor.shape.name, "layers.1"))
      tensor.type = StoredType::kF16;
  }
  WriteFile("model.safetensors", tensors);
  ASSERT_TRUE(OpenAndVerify(FixtureT0()).ok());
  for (const Tensor& tensor : tensors) {
    const TensorSource* source = checkpoint_->Find(tensor.shape.name);
    const std::vector<float> expected = FixtureTensor(tensor.shape);
    std::vector<float> values(expected.size());
    ASSERT_TRUE(ReadFloats(*source->file, *source->info, 0, values).ok());
    const float tolerance = tensor.type == StoredType::kF32 ? 0 : 4e-3f;
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(values[i], expected[i], tolerance) << tensor.shape.name;
    }
  }
}

TEST_F(HfCheckpointTest, TheNumberOfLayersMustBeThatOfTheFile) {
  WriteModel(FixtureT0(), 1);
  TransformerConfig config = FixtureT0();
  config.layers = 3;
  ExpectRefused(config,
                {"'model.layers.2.self_attn.q_proj.weight' [32, 32] is missing"});
  config.layers = 1;
  ExpectRefused(config, {"'model.layers.1.", "has no place"});
}

TEST_F(HfCheckpointTest, AMissingHeadIsNotGuessed) {
  TransformerConfig tied = FixtureT0();
  tied.tied = true;
  WriteModel(tied, 1);
  EXPECT_TRUE(OpenAndVerify(tied).ok());
  ExpectRefused(FixtureT0(), {"'lm_head.weight'", "tie_word_embeddings"});
}

TEST_F(HfCheckpointTest, AHeadBesideTiedEmbeddingsMustEqualThem) {
  TransformerConfig tied = FixtureT0();
  tied.tied = true;
  WriteModel(FixtureT0(), 1);  // its head has other values than its embedding
  ExpectRefused(tied, {"'lm_head.weight'", "differs from 'model.embed_tokens.weight'"});

  // The same values under both names: zero times anything.
  auto equal = Tensors(FixtureT0());
  equal.front().factor = 0;
  equal.back().factor = 0;
  WriteFile("model.safetensors", equal);
  EXPECT_TRUE(OpenAndVerify(tied).ok());
}

TEST_F(HfCheckpointTest, AWrongTotalSizeIsAWarning) {
  WriteModel(FixtureT0(), 3);
  EditIndex("\"total_size\": 79232", "\"total_size\": 1");
  EXPECT_TRUE(OpenAndVerify(FixtureT0()).ok());
  ASSERT_EQ(checkpoint_->warnings().size(), 1u);
  EXPECT_TRUE(absl::StrContains(checkpoint_->warnings()[0], "79232"));
}

TEST_F(HfCheckpointTest, AShardOutsideOfTheDirectoryIsRefused) {
  for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "..", "a/b"}) {
    WriteModel(FixtureT0(), 3);
    EditIndex(kShard2, name);
    ExpectRefused(FixtureT0(), {name, "no file name"});
  }
}

TEST_F(HfCheckpointTest, PicklesAloneAreRefusedWithAHint) {
  directory_.Write("pytorch_model.bin", "x");
  ExpectRefused(FixtureT0(), {"pytorch_model.bin", "safetensors"});
}

TEST_F(HfCheckpointTest, AnEmptyDirectoryIsNotFound) {
  ExpectRefused(FixtureT0(), {"neither model.safetensors nor"});
}

}  // namespace
}  // namespace strata
