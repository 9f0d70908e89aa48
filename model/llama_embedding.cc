#include "model/llama.h"

namespace strata::internal {
namespace {

class Embedding final : public Layer {
 public:
  Embedding(const TransformerConfig& config, DType dtype, const LlamaOptions& options)
      : vocab_(config.vocab),
        hidden_(config.hidden),
        dtype_(dtype),
        tensor_(
            MakeTensorSpec(options, "model.embed_tokens.weight", {vocab_, hidden_})) {}

  std::string name() const override { return "embedding"; }
  std::vector<TensorSpec> tensors() const override { return {tensor_}; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    return {.output_bytes = shape.tokens() * hidden_ * SizeOf(dtype_)};
  }

  absl::Status Forward(const LayerContext& context) const override {
    return context.kernels.Run(context.stream,
                               EmbeddingForward{.output = context.output,
                                                .weight = context.weights,
                                                .tokens = context.inputs.tokens,
                                                .rows = context.shape.tokens(),
                                                .width = hidden_,
                                                .vocab = vocab_,
                                                .dtype = dtype_});
  }

  absl::Status Backward(const LayerContext& context) const override {
    if (!tensor_.trainable) return absl::OkStatus();
    return context.kernels.Run(
        context.stream, EmbeddingBackward{.accumulator = context.accumulator,
                                          .output_gradient = context.output_gradient,
                                          .tokens = context.inputs.tokens,
                                          .rows = context.shape.tokens(),
                                          .width = hidden_,
                                          .vocab = vocab_,
                                          .dtype = dtype_});
  }

 private:
  const int64_t vocab_, hidden_;
  const DType dtype_;
  const TensorSpec tensor_;
};

}  // namespace

std::unique_ptr<Layer> MakeLlamaEmbedding(const TransformerConfig& config, DType dtype,
                                          const LlamaOptions& options) {
  return std::make_unique<Embedding>(config, dtype, options);
}

}  // namespace strata::internal
