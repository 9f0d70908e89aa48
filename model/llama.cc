#include "model/llama.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "runtime/base/status.h"

namespace strata {
namespace internal {

TensorSpec MakeTensorSpec(const LlamaOptions& options, std::string name,
                          std::vector<int64_t> shape) {
  TensorSpec spec{.name = std::move(name), .shape = std::move(shape)};
  spec.trainable = !options.trainable || options.trainable(spec.name);
  spec.decays = !options.decays || options.decays(spec.name);
  return spec;
}

}  // namespace internal
namespace {

absl::Status CheckShape(const TransformerConfig& config) {
  const std::pair<const char*, int64_t> extents[] = {
      {"vocab_size", config.vocab},
      {"hidden_size", config.hidden},
      {"intermediate_size", config.intermediate},
      {"num_hidden_layers", config.layers},
      {"num_attention_heads", config.heads},
      {"num_key_value_heads", config.kv_heads},
      {"head_dim", config.head_dim}};
  for (const auto& [name, extent] : extents) {
    if (extent > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, " of the model is ", extent, ", and must be positive"));
  }
  if (config.heads % config.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_attention_heads ", config.heads, " of the model is no multiple of its ",
        "num_key_value_heads ", config.kv_heads));
  }
  if (config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim of the model is ", config.head_dim,
                     ", and must be even: rotary positions turn pairs"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> BuildLlama(
    const TransformerConfig& config, DType dtype, const LlamaOptions& options) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot train in ", Name(dtype), ": use F32 or BF16"));
  }
  STRATA_RETURN_IF_ERROR(CheckShape(config));
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(internal::MakeLlamaEmbedding(config, dtype, options));
  for (int64_t block = 0; block < config.layers; ++block) {
    layers.push_back(internal::MakeLlamaBlock(config, dtype, options, block));
  }
  layers.push_back(internal::MakeLlamaHead(config, dtype, options));
  return layers;
}

}  // namespace strata
