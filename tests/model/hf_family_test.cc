// What config.json of each family means, beside what all of them have.
#include "model/hf_family.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include "model/hf_config.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

/// A small config.json of family `model_type` with `more` keys.
absl::StatusOr<HfConfig> Parse(absl::string_view model_type, absl::string_view more) {
  return ParseHfConfig(
      absl::StrCat(R"({"model_type": ")", model_type, R"(", "vocab_size": 10,
          "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 1,
          "num_attention_heads": 2, "num_key_value_heads": 1)",
                   more.empty() ? "" : ", ", more, "}"),
      "config.json");
}

TransformerConfig Shape(absl::string_view model_type, absl::string_view more = "") {
  const auto config = Parse(model_type, more);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->shape : TransformerConfig{};
}

TEST(HfFamily, BiasesAreWhereTheFamilyHasThem) {
  EXPECT_FALSE(Shape("llama").qkv_bias);
  EXPECT_FALSE(Shape("mistral").qkv_bias);
  EXPECT_TRUE(Shape("qwen2").qkv_bias);
  EXPECT_FALSE(Shape("qwen2").output_bias);
  EXPECT_FALSE(Shape("qwen3").qkv_bias);
  for (const char* family : {"llama", "qwen3"}) {
    const TransformerConfig biased = Shape(family, R"("attention_bias": true)");
    EXPECT_TRUE(biased.qkv_bias && biased.output_bias) << family;
  }
}

TEST(HfFamily, OnlyQwen3NormalisesHeads) {
  for (const char* family : {"llama", "mistral", "qwen2"}) {
    EXPECT_FALSE(Shape(family).qk_norm) << family;
    EXPECT_EQ(Shape(family).head_dim, 4) << family;
  }
  EXPECT_TRUE(Shape("qwen3").qk_norm);
  EXPECT_EQ(Shape("qwen3").head_dim, 128);  // its class's default
  EXPECT_EQ(Shape("qwen3", R"("head_dim": 6)").head_dim, 6);
}

TEST(HfFamily, AWindowCountsWhereItIsUsed) {
  EXPECT_EQ(Shape("llama", R"("sliding_window": 5)").sliding_window, 0);
  EXPECT_EQ(Shape("mistral").sliding_window, 4096);  // its class's default
  EXPECT_EQ(Shape("mistral", R"("sliding_window": null)").sliding_window, 0);
  EXPECT_EQ(Shape("mistral", R"("sliding_window": 5)").sliding_window, 5);
  for (const char* family : {"qwen2", "qwen3"}) {
    EXPECT_EQ(Shape(family, R"("sliding_window": 5)").sliding_window, 0);
    EXPECT_EQ(Shape(family, R"("sliding_window": 5, "use_sliding_window": true)")
                  .sliding_window,
              5);
    EXPECT_EQ(Shape(family, R"("sliding_window": 5,
                         "layer_types": ["full_attention", "sliding_attention"])")
                  .sliding_window,
              5);
    EXPECT_EQ(Shape(family, R"("sliding_window": 5, "layer_types": ["full_attention"])")
                  .sliding_window,
              0);
  }
  EXPECT_FALSE(Parse("qwen2", R"("layer_types": ["linear_attention"])").ok());
}

TEST(HfFamily, RowsMayBeAsLongAsTheWindowAndNoLonger) {
  const TransformerConfig config = Shape("mistral", R"("sliding_window": 32)");
  EXPECT_EQ(CheckWindow(config, 32), absl::OkStatus());
  const absl::Status refused = CheckWindow(config, 33);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_TRUE(absl::StrContains(refused.message(), "sliding_window")) << refused;
  EXPECT_TRUE(absl::StrContains(MendOf(refused), "--max_seq_length")) << refused;
  EXPECT_EQ(CheckWindow(Shape("llama"), 1 << 20), absl::OkStatus());
}

TEST(HfFamily, WhatIsNotSupportedIsRefusedWithAWayToGoOn) {
  for (const char* family : {"gpt2", "mixtral", "gemma2", "phi3", "qwen", "other"}) {
    const absl::Status refused = Parse(family, "").status();
    EXPECT_TRUE(absl::StrContains(refused.message(), family)) << refused;
    EXPECT_TRUE(absl::StrContains(refused.message(), "qwen3")) << refused;
    EXPECT_TRUE(absl::StrContains(MendOf(refused), "docs/examples/embed")) << family;
  }
  for (const char* scaling : {"dynamic", "yarn", "longrope"}) {
    const absl::Status refused =
        Parse("qwen2", absl::StrCat(R"("rope_scaling": {"factor": 4, "type": ")",
                                    scaling, "\"}"))
            .status();
    EXPECT_TRUE(absl::StrContains(refused.message(), scaling)) << refused;
    EXPECT_FALSE(MendOf(refused).empty()) << scaling;
  }
}

}  // namespace
}  // namespace strata
