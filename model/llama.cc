#include "model/llama.h"

#include <absl/strings/str_cat.h>

#include <utility>

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

absl::StatusOr<std::vector<std::unique_ptr<Layer>>> BuildLlama(
    const TransformerConfig& config, DType dtype, const LlamaOptions& options) {
  if (dtype != DType::kF32 && dtype != DType::kBF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot train in ", Name(dtype), ": use F32 or BF16"));
  }
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(internal::MakeLlamaEmbedding(config, dtype, options));
  for (int64_t block = 0; block < config.layers; ++block) {
    layers.push_back(internal::MakeLlamaBlock(config, dtype, options, block));
  }
  layers.push_back(internal::MakeLlamaHead(config, dtype, options));
  return layers;
}

}  // namespace strata
