#include "model/hf_config.h"

#include <absl/strings/str_cat.h>

#include <array>
#include <nlohmann/json.hpp>

#include "model/hf_family.h"
#include "model/hf_keys.h"
#include "model/json_reader.h"
#include "model/text_file.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr std::array<const char*, 3> kRopeNames = {"default", "linear", "llama3"};
constexpr std::array<const char*, 3> kDTypeNames = {"float32", "bfloat16", "float16"};

// What to do about a scaling of positions that is not computed here.
std::string HowToGoOn(absl::string_view rope_type) {
  if (rope_type == "dynamic") {
    return "it does nothing to rows within the model's original length: to train on "
           "such rows, remove the scaling from a copy of config.json";
  }
  return "take a checkpoint without it; for rows within the model's original length, "
         "many models are published with the scaling as an option to leave out";
}

// "rope_scaling" or "rope_parameters": both have a type and that type's numbers.
absl::Status ReadRopeType(const JsonValue& rope, absl::string_view key,
                          RopeConfig& config) {
  if (!rope.is_object()) return KeyError(key, rope, "an object is expected");
  const JsonValue* type = Present(rope, "rope_type");
  if (type == nullptr) type = Present(rope, "type");
  if (type == nullptr) return KeyError(key, rope, "rope_type is missing");
  const std::string type_key = absl::StrCat(key, ".rope_type");
  size_t index = 0;
  while (index < kRopeNames.size() && type->text != kRopeNames[index]) ++index;
  if (!type->is_string() || index == kRopeNames.size()) {
    return WithMend(
        KeyError(
            type_key, *type,
            "this rotary scaling is not supported; default, linear and llama3 are"),
        HowToGoOn(type->text));
  }
  config.type = static_cast<RopeType>(index);
  if (config.type == RopeType::kDefault) return absl::OkStatus();
  const auto require = [&](absl::string_view name) {
    return Present(rope, name) != nullptr
               ? absl::OkStatus()
               : KeyError(type_key, *type, absl::StrCat(name, " is missing"));
  };
  STRATA_RETURN_IF_ERROR(require("factor"));
  STRATA_RETURN_IF_ERROR(ReadPositive(rope, "factor", config.factor));
  if (config.type == RopeType::kLinear) return absl::OkStatus();
  for (absl::string_view name :
       {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    STRATA_RETURN_IF_ERROR(require(name));
  }
  STRATA_RETURN_IF_ERROR(ReadPositive(rope, "low_freq_factor", config.low_freq_factor));
  STRATA_RETURN_IF_ERROR(
      ReadPositive(rope, "high_freq_factor", config.high_freq_factor));
  STRATA_RETURN_IF_ERROR(ReadCount(rope, "original_max_position_embeddings",
                                   config.original_max_position));
  if (config.high_freq_factor <= config.low_freq_factor) {
    return KeyError(type_key, *type, "high_freq_factor must exceed low_freq_factor");
  }
  return absl::OkStatus();
}

absl::Status ReadRope(const JsonValue& root, RopeConfig& config) {
  const JsonValue* old_theta = Present(root, "rope_theta");
  const JsonValue* old_scaling = Present(root, "rope_scaling");
  const JsonValue* parameters = Present(root, "rope_parameters");
  STRATA_RETURN_IF_ERROR(ReadPositive(root, "rope_theta", config.theta));
  if (old_scaling != nullptr) {
    STRATA_RETURN_IF_ERROR(ReadRopeType(*old_scaling, "rope_scaling", config));
  }
  if (parameters == nullptr) return absl::OkStatus();
  RopeConfig renewed{.theta = config.theta};
  STRATA_RETURN_IF_ERROR(ReadRopeType(*parameters, "rope_parameters", renewed));
  STRATA_RETURN_IF_ERROR(ReadPositive(*parameters, "rope_theta", renewed.theta));
  const double theta = old_theta == nullptr ? renewed.theta : config.theta;
  if (root.Find("rope_scaling") == nullptr) config = renewed;  // null says "default"
  config.theta = theta;
  if (config != renewed) {
    return KeyError("rope_parameters", *parameters,
                    "differs from rope_theta and rope_scaling; keep one of the two");
  }
  return absl::OkStatus();
}

absl::Status ReadDType(const JsonValue& root, DType& dtype) {
  for (absl::string_view key : {"dtype", "torch_dtype"}) {
    const JsonValue* value = Present(root, key);
    if (value == nullptr) continue;
    for (size_t i = 0; i < kDTypeNames.size(); ++i) {
      if (value->is_string() && value->text == kDTypeNames[i]) {
        dtype = static_cast<DType>(i);
        return absl::OkStatus();
      }
    }
    return KeyError(key, *value, "float32, bfloat16 or float16 is expected");
  }
  return absl::OkStatus();
}

// Keys that would change the formula. Their harmless values are everywhere in the wild.
absl::Status RefuseUnsupported(const JsonValue& root) {
  const JsonValue* act = Present(root, "hidden_act");
  if (act != nullptr && (!act->is_string() || act->text != "silu")) {
    return KeyError("hidden_act", *act, "only silu is supported");
  }
  for (absl::string_view key : {"mlp_bias", "rope_interleaved"}) {
    bool on = false;
    STRATA_RETURN_IF_ERROR(ReadBool(root, key, on));
    if (on) return KeyError(key, *root.Find(key), "this variant is not supported yet");
  }
  const JsonValue* dropout = Present(root, "attention_dropout");
  if (dropout != nullptr && (!dropout->is_number() || dropout->number != 0)) {
    return KeyError("attention_dropout", *dropout, "only 0 is supported");
  }
  const JsonValue* partial = Present(root, "partial_rotary_factor");
  if (partial != nullptr && (!partial->is_number() || partial->number != 1)) {
    return KeyError("partial_rotary_factor", *partial, "only 1 is supported");
  }
  if (const JsonValue* quantized = Present(root, "quantization_config")) {
    return KeyError("quantization_config", *quantized,
                    "quantized weights cannot be trained; use the original checkpoint");
  }
  return absl::OkStatus();
}

absl::Status ReadHeads(const HfFamily& family, const JsonValue& root,
                       TransformerConfig& config) {
  config.kv_heads = config.heads;
  config.head_dim = family.head_dim;
  const auto read = family.kv_heads_may_be_absent ? ReadCount : ReadRequiredCount;
  STRATA_RETURN_IF_ERROR(read(root, "num_key_value_heads", config.kv_heads));
  if (config.heads % config.kv_heads != 0) {
    return KeyError("num_key_value_heads", *root.Find("num_key_value_heads"),
                    absl::StrCat("it must divide num_attention_heads, ", config.heads));
  }
  if (Present(root, "head_dim") == nullptr && config.head_dim == 0) {
    if (config.hidden % config.heads != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "head_dim is missing and hidden_size ", config.hidden,
          " is no multiple of num_attention_heads ", config.heads, "; give head_dim"));
    }
    config.head_dim = config.hidden / config.heads;
  }
  STRATA_RETURN_IF_ERROR(ReadCount(root, "head_dim", config.head_dim));
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "head_dim is ", config.head_dim, ": rotary embedding needs an even one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<TransformerConfig> ReadShape(const JsonValue& root) {
  if (!root.is_object()) return absl::InvalidArgumentError("is no JSON object");
  STRATA_ASSIGN_OR_RETURN(const HfFamily family, FamilyOf(root));
  STRATA_RETURN_IF_ERROR(RefuseUnsupported(root));
  TransformerConfig config;
  STRATA_RETURN_IF_ERROR(ReadRequiredCount(root, "vocab_size", config.vocab));
  STRATA_RETURN_IF_ERROR(ReadRequiredCount(root, "hidden_size", config.hidden));
  STRATA_RETURN_IF_ERROR(
      ReadRequiredCount(root, "intermediate_size", config.intermediate));
  STRATA_RETURN_IF_ERROR(ReadRequiredCount(root, "num_hidden_layers", config.layers));
  STRATA_RETURN_IF_ERROR(ReadRequiredCount(root, "num_attention_heads", config.heads));
  STRATA_RETURN_IF_ERROR(ReadHeads(family, root, config));
  STRATA_RETURN_IF_ERROR(ReadFamilyKeys(family, root, config));
  STRATA_RETURN_IF_ERROR(ReadPositive(root, "rms_norm_eps", config.rms_norm_eps));
  STRATA_RETURN_IF_ERROR(
      ReadCount(root, "max_position_embeddings", config.max_position));
  STRATA_RETURN_IF_ERROR(ReadBool(root, "tie_word_embeddings", config.tied));
  STRATA_RETURN_IF_ERROR(ReadRope(root, config.rope));
  STRATA_RETURN_IF_ERROR(ReadDType(root, config.dtype));
  return config;
}

nlohmann::ordered_json RopeScalingJson(const RopeConfig& rope) {
  nlohmann::ordered_json json;
  json["rope_type"] = kRopeNames[static_cast<size_t>(rope.type)];
  if (rope.type == RopeType::kDefault) return json;
  json["factor"] = rope.factor;
  if (rope.type == RopeType::kLinear) return json;
  json["low_freq_factor"] = rope.low_freq_factor;
  json["high_freq_factor"] = rope.high_freq_factor;
  json["original_max_position_embeddings"] = rope.original_max_position;
  return json;
}

}  // namespace

absl::StatusOr<HfConfig> ParseHfConfig(absl::string_view text, absl::string_view name) {
  STRATA_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(text, name));
  absl::StatusOr<TransformerConfig> shape = ReadShape(root);
  if (!shape.ok()) return Annotate(shape.status(), name);
  return HfConfig{*shape, std::string(text)};
}

absl::StatusOr<HfConfig> LoadHfConfig(absl::string_view directory) {
  const std::string path = absl::StrCat(directory, "/config.json");
  absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) {
    return Annotate(text.status(),
                    "--model_name_or_path wants a Hugging Face model directory");
  }
  return ParseHfConfig(*text, path);
}

absl::StatusOr<std::string> ExportHfConfig(const HfConfig& config, DType dtype) {
  auto json = nlohmann::ordered_json::parse(config.json, nullptr,
                                            /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InvalidArgumentError("config.json is no JSON object");
  const RopeConfig& rope = config.shape.rope;
  json["rope_theta"] = rope.theta;
  json["rope_scaling"] = rope.type == RopeType::kDefault ? nlohmann::ordered_json()
                                                         : RopeScalingJson(rope);
  json["rope_parameters"] = RopeScalingJson(rope);
  json["rope_parameters"]["rope_theta"] = rope.theta;
  const char* dtype_name = kDTypeNames[static_cast<size_t>(dtype)];
  json["torch_dtype"] = dtype_name;
  json["dtype"] = dtype_name;
  return json.dump(2, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

}  // namespace strata
