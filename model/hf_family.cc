#include "model/hf_family.h"

#include <absl/strings/str_cat.h>

#include <array>

#include "model/hf_keys.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr std::array<HfFamily, 4> kFamilies = {
    HfFamily{.model_type = "llama",
             .models = "Llama 2 and 3, TinyLlama, SmolLM2, OpenLLaMA",
             .kv_heads_may_be_absent = true},
    HfFamily{.model_type = "mistral", .models = "Mistral 7B, Mistral Nemo"},
    HfFamily{.model_type = "qwen2", .models = "Qwen2, Qwen2.5"},
    HfFamily{.model_type = "qwen3", .models = "Qwen3, dense", .head_dim = 128}};

/// Why a well-known family is none of them.
struct OtherFamily {
  absl::string_view prefix;  // of model_type
  absl::string_view why;
};
constexpr OtherFamily kOthers[] = {
    {"gpt2", "learned positions, and layer norm in place of RMS norm"},
    {"gpt_neox", "layer norm and parallel blocks"},
    {"gptj", "layer norm and parallel blocks"},
    {"opt", "learned positions, and layer norm in place of RMS norm"},
    {"bloom", "ALiBi positions and layer norm"},
    {"mpt", "ALiBi positions and layer norm"},
    {"falcon", "layer norm and parallel blocks"},
    {"gemma", "norms that add 1 to their weights, scaled embeddings and GELU"},
    {"phi3", "fused projections and rotary positions of part of a head"},
    {"phi", "layer norm and parallel blocks"},
    {"mixtral", "a mixture of experts"},
    {"qwen2_moe", "a mixture of experts"},
    {"qwen3_moe", "a mixture of experts"},
    {"qwen3_next", "linear attention and a mixture of experts"},
    {"qwen2_vl", "images beside text"},
    {"qwen2_5_vl", "images beside text"},
    {"qwen3_vl", "images beside text"},
    {"llama4", "a mixture of experts, and images beside text"},
    {"mllama", "images beside text"},
    {"mistral3", "images beside text"},
    {"deepseek", "latent attention or a mixture of experts"},
    {"gpt_oss", "a mixture of experts and attention sinks"},
    {"olmo", "norms in other places"},
    {"cohere", "layer norm and parallel blocks"},
    {"qwen", "the first Qwen: fused projections and code of its own"}};

std::string Supported() {
  std::string text;
  for (const HfFamily& family : kFamilies) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", family.model_type, " (",
                    family.models, ")");
  }
  return text;
}

absl::string_view WhyNot(absl::string_view model_type) {
  for (const OtherFamily& other : kOthers) {
    if (model_type.substr(0, other.prefix.size()) == other.prefix) return other.why;
  }
  return "";
}

// A window that applies to any layer applies to the whole model here.
absl::Status ReadWindow(const HfFamily& family, const JsonValue& root,
                        TransformerConfig& config) {
  constexpr int64_t kAbsent = 4096;  // in all of their configuration classes
  const absl::string_view type = family.model_type;
  if (type == "llama") return absl::OkStatus();
  bool used = type == "mistral";
  if (!used) STRATA_RETURN_IF_ERROR(ReadBool(root, "use_sliding_window", used));
  if (const JsonValue* layers = Present(root, "layer_types")) {
    for (const JsonValue& layer : layers->items) {
      if (layer.text == "full_attention") continue;
      if (layer.text != "sliding_attention") {
        return KeyError("layer_types", layer, "only full_attention is supported");
      }
      used = true;
    }
  }
  const JsonValue* window = root.Find("sliding_window");
  if (!used || (window != nullptr && window->is_null())) return absl::OkStatus();
  config.sliding_window = kAbsent;
  return ReadCount(root, "sliding_window", config.sliding_window);
}

}  // namespace

absl::StatusOr<HfFamily> FamilyOf(const JsonValue& root) {
  const JsonValue* type = Present(root, "model_type");
  if (type != nullptr && type->is_string()) {
    for (const HfFamily& family : kFamilies) {
      if (type->text == family.model_type) return family;
    }
  }
  const std::string found = type == nullptr ? "missing" : type->Describe();
  const absl::string_view why = type == nullptr ? "" : WhyNot(type->text);
  return WithMend(
      absl::InvalidArgumentError(absl::StrCat("model_type is ", found,
                                              why.empty() ? "" : ", which has ", why,
                                              "; supported are ", Supported())),
      "take a model of one of these families, or write the layers of this one "
      "(docs/examples/embed shows how)");
}

absl::Status ReadFamilyKeys(const HfFamily& family, const JsonValue& root,
                            TransformerConfig& config) {
  const absl::string_view type = family.model_type;
  config.qk_norm = type == "qwen3";
  if (type == "qwen2") {
    config.qkv_bias = true;  // it has no key for that
  } else if (type != "mistral") {
    STRATA_RETURN_IF_ERROR(ReadBool(root, "attention_bias", config.qkv_bias));
    config.output_bias = config.qkv_bias;
  }
  return ReadWindow(family, root, config);
}

}  // namespace strata
