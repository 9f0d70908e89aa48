#include "model/hf_config.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <gtest/gtest.h>

#include "tests/support/fixture_t0.h"

namespace strata {
namespace {

// T0's config.json with one piece of its text replaced.
std::string Edited(absl::string_view from, absl::string_view to) {
  const std::string json = FixtureConfigJson(FixtureT0());
  const std::string edited = absl::StrReplaceAll(json, {{from, to}});
  EXPECT_NE(edited, json) << from;
  return edited;
}

TEST(TransformerConfig, ParameterCountsAreTheKnownOnes) {
  const std::pair<const char*, int64_t> counts[] = {
      {"llama-2-7b", 6738415616},      {"llama-2-13b", 13015864320},
      {"llama-2-70b", 68976648192},    {"llama-3.1-8b", 8030261248},
      {"llama-3.1-70b", 70553706496},  {"llama-3.2-1b", 1235814400},
      {"llama-3.2-3b", 3212749824},    {"tinyllama-1.1b", 1100048384},
      {"open-llama-3b", 3426473600},   {"smollm2-135m", 134515008},
      {"smollm2-360m", 361821120},     {"smollm2-1.7b", 1711376384},
      {"mistral-7b-v0.1", 7241732096}, {"mistral-7b", 7248023552},
      {"qwen2.5-0.5b", 494032768},     {"qwen2.5-1.5b", 1543714304},
      {"qwen2.5-3b", 3085938688},      {"qwen2.5-7b", 7615616512},
      {"qwen2.5-14b", 14770033664},    {"qwen2.5-32b", 32763876352},
      {"qwen2.5-72b", 72706203648},    {"qwen3-0.6b", 596049920},
      {"qwen3-1.7b", 1720574976},      {"qwen3-4b", 4022468096},
      {"qwen3-8b", 8190735360},        {"qwen3-14b", 14768307200},
      {"qwen3-32b", 32762123264}};
  EXPECT_EQ(BuiltinShapeNames().size(), std::size(counts));
  for (const auto& [name, count] : counts) {
    const auto shape = BuiltinShape(name);
    ASSERT_TRUE(shape.has_value()) << name;
    EXPECT_EQ(ParameterCount(*shape), count) << name;
    if (!shape->qk_norm) {
      EXPECT_EQ(shape->head_dim * shape->heads, shape->hidden) << name;
    }
  }
  EXPECT_FALSE(BuiltinShape("gpt-2").has_value());
}

TEST(TransformerConfig, TiedEmbeddingsCountOnceAndHeadDimIsAField) {
  TransformerConfig config = FixtureT0();
  EXPECT_EQ(ParameterCount(config), 19808);
  config.tied = true;
  EXPECT_EQ(ParameterCount(config), 17664);
  config.tied = false;
  config.head_dim = 16;
  EXPECT_EQ(ParameterCount(config), 25952);
  config.hidden = 36;
  config.heads = 8;
  config.head_dim = 4;
  EXPECT_EQ(ParameterCount(config), 21132);
}

TEST(HfConfig, AbsentAndNullKeysTakeTheirDefaults) {
  const auto heads = ParseHfConfig(Edited(" \"num_key_value_heads\": 2,\n", ""), "c");
  EXPECT_EQ(heads->shape.kv_heads, 4);
  const auto derived = ParseHfConfig(Edited(" \"head_dim\": 8,\n", ""), "c");
  EXPECT_EQ(derived->shape.head_dim, 8);
  const auto null = ParseHfConfig(Edited("\"head_dim\": 8", "\"head_dim\": null"), "c");
  EXPECT_EQ(null->shape, FixtureT0());
  const auto minimal = ParseHfConfig(
      R"({"model_type": "llama", "vocab_size": 10, "hidden_size": 8,
          "intermediate_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2})",
      "c");
  ASSERT_TRUE(minimal.ok()) << minimal.status();
  EXPECT_DOUBLE_EQ(minimal->shape.rms_norm_eps, 1e-6);
  EXPECT_DOUBLE_EQ(minimal->shape.rope.theta, 10000);
  EXPECT_FALSE(minimal->shape.tied);
  EXPECT_EQ(minimal->shape.dtype, DType::kF32);
}

TEST(HfConfig, ReadsBothLayoutsOfTheRotaryKeys) {
  const RopeConfig llama3 = {.theta = 500000,
                             .type = RopeType::kLlama3,
                             .factor = 32,
                             .low_freq_factor = 1,
                             .high_freq_factor = 4,
                             .original_max_position = 8192};
  const std::string scaling =
      R"({"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
          "original_max_position_embeddings": 8192, "rope_type": "llama3")";
  const std::string old_keys = R"( "rope_theta": 10000.0,
 "rope_scaling": null,
)";
  const auto old_layout = ParseHfConfig(
      Edited(old_keys,
             absl::StrCat("\"rope_theta\": 5e5, \"rope_scaling\": ", scaling, "},")),
      "c");
  ASSERT_TRUE(old_layout.ok()) << old_layout.status();
  EXPECT_EQ(old_layout->shape.rope, llama3);
  const std::string parameters =
      absl::StrCat("\"rope_parameters\": ", scaling, ", \"rope_theta\": 500000.0},");
  const auto new_layout = ParseHfConfig(Edited(old_keys, parameters), "c");
  ASSERT_TRUE(new_layout.ok()) << new_layout.status();
  EXPECT_EQ(new_layout->shape.rope, llama3);
  const auto linear =
      ParseHfConfig(Edited("\"rope_scaling\": null",
                           R"("rope_scaling": {"type": "linear", "factor": 2.0})"),
                    "c");
  EXPECT_EQ(linear->shape.rope.type, RopeType::kLinear);
  EXPECT_DOUBLE_EQ(linear->shape.rope.factor, 2);
  const auto both = ParseHfConfig(Edited(old_keys, old_keys + parameters), "c");
  ASSERT_FALSE(both.ok());
  EXPECT_TRUE(absl::StrContains(both.status().message(), "rope_parameters"));
}

TEST(HfConfig, RefusesByNameWhatWeWouldComputeDifferently) {
  const struct {
    const char* from;
    const char* to;
    const char* named;
  } cases[] = {
      {"\"llama\"", "\"gpt2\"", "model_type is \"gpt2\", which has learned positions"},
      {"\"llama\"", "\"mixtral\"", "a mixture of experts; supported are llama"},
      {"\"llama\"", "\"gemma3_text\"", "scaled embeddings"},
      {"\"llama\"", "\"phi3\"", "fused projections"},
      {"\"llama\"", "\"phi\"", "parallel blocks"},
      {"\"llama\"", "\"qwen\"", "the first Qwen"},
      {"\"llama\"", "\"qwen3_moe\"", "a mixture of experts"},
      {"\"llama\"", "\"unheard\"", "model_type is \"unheard\"; supported are"},
      {"\"silu\"", "\"gelu\"", "hidden_act is \"gelu\""},
      {"\"mlp_bias\": false", "\"mlp_bias\": true", "mlp_bias is true"},
      {"\"rope_scaling\": null",
       R"("rope_scaling": {"rope_type": "yarn", "factor": 2})",
       "rope_scaling.rope_type is \"yarn\""},
      {"\"rope_scaling\": null", R"("rope_scaling": {"type": "dynamic", "factor": 2})",
       "rope_scaling.rope_type is \"dynamic\""},
      {"\"rope_scaling\": null",
       R"("rope_scaling": {"type": "longrope", "long_factor": [1]})",
       "rope_scaling.rope_type is \"longrope\""},
      {"\"rope_scaling\": null",
       R"("rope_scaling": {"rope_type": "llama3", "factor": 2})",
       "low_freq_factor is missing"},
      {"\"rope_scaling\": null", R"("rope_scaling": {"factor": 2})",
       "rope_type is missing"},
      {"\"rope_theta\": 10000.0", "\"rope_theta\": 0", "rope_theta is 0"},
      {"\"hidden_size\": 32,", "", "hidden_size is missing"},
      {"\"hidden_size\": 32,", "\"hidden_size\": -32,", "hidden_size is -32"},
      {"\"hidden_size\": 32,", "\"hidden_size\": \"32\",", "hidden_size is \"32\""},
      {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "must divide"},
      {"\"head_dim\": 8", "\"head_dim\": 7", "head_dim is 7"},
      {"\"initializer_range\": 0.02", "\"attention_dropout\": 0.1",
       "attention_dropout"},
      {"\"initializer_range\": 0.02", "\"quantization_config\": {}",
       "quantization_config"},
      {"\"float32\"", "\"float64\"", "torch_dtype is \"float64\""},
      {"\"vocab_size\": 67,", "\"vocab_size\": 67, \"vocab_size\": 68,", "given twice"},
  };
  for (const auto& test : cases) {
    const auto config = ParseHfConfig(Edited(test.from, test.to), "some/config.json");
    ASSERT_FALSE(config.ok()) << test.named;
    EXPECT_TRUE(absl::StrContains(config.status().message(), test.named))
        << config.status();
    EXPECT_TRUE(absl::StrContains(config.status().message(), "some/config.json"));
  }
}

TEST(HfConfig, TheExportKeepsEveryKeyAndIsReadByOldAndNewReaders) {
  TransformerConfig shape = FixtureT0();
  shape.head_dim = 16;
  shape.rope = {.theta = 12345, .type = RopeType::kLinear, .factor = 2};
  const auto config = ParseHfConfig(
      absl::StrReplaceAll(FixtureConfigJson(shape),
                          {{"\"bos_token_id\": 1", "\"bos_token_id\": [7, 8]"}}),
      "c");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto text = ExportHfConfig(*config, DType::kBF16);
  ASSERT_TRUE(text.ok());
  for (const char* piece :
       {"\"rope_theta\": 12345.0", "\"rope_parameters\": {", "\"rope_scaling\": {",
        "\"torch_dtype\": \"bfloat16\"", "\"dtype\": \"bfloat16\"", "\"head_dim\": 16",
        "\"architectures\": [", "\"bos_token_id\": ["}) {
    EXPECT_TRUE(absl::StrContains(*text, piece)) << piece << " in " << *text;
  }
  const auto again = ParseHfConfig(*text, "again");
  ASSERT_TRUE(again.ok()) << again.status();
  shape.dtype = DType::kBF16;
  EXPECT_EQ(again->shape, shape);
}

}  // namespace
}  // namespace strata
