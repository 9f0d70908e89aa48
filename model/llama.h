/// The layers of Llama-family models: embedding, blocks, head.
#pragma once

#include <absl/strings/string_view.h>

#include <functional>
#include <memory>
#include <vector>

#include "model/layer.h"
#include "model/transformer_config.h"

namespace strata {

struct LlamaOptions {
  /// Which tensors are trained, and which decay, by name. Null: all of them.
  std::function<bool(absl::string_view)> trainable;
  std::function<bool(absl::string_view)> decays;
};

/// One layer for the embedding, one for each block, one for final norm and head;
/// tensors are named as in Hugging Face. `dtype`: F32 or BF16. InvalidArgument for a
/// shape that the kernels cannot compute.
absl::StatusOr<std::vector<std::unique_ptr<Layer>>> BuildLlama(
    const TransformerConfig& config, DType dtype, const LlamaOptions& options);

namespace internal {

/// Applies the options to a tensor of this name.
TensorSpec MakeTensorSpec(const LlamaOptions& options, std::string name,
                          std::vector<int64_t> shape);

std::unique_ptr<Layer> MakeLlamaEmbedding(const TransformerConfig& config, DType dtype,
                                          const LlamaOptions& options);
/// `index` counts blocks from 0; block 0 owns the rotary tables.
std::unique_ptr<Layer> MakeLlamaBlock(const TransformerConfig& config, DType dtype,
                                      const LlamaOptions& options, int64_t index);
std::unique_ptr<Layer> MakeLlamaHead(const TransformerConfig& config, DType dtype,
                                     const LlamaOptions& options);

}  // namespace internal
}  // namespace strata
