#include "tests/support/toy_model.h"

#include <limits>
#include <random>

#include "model/llama.h"
#include "model/model_files.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

/// Hands everything on, and spoils the gradient where the data says so.
class PoisonedHead final : public Layer {
 public:
  explicit PoisonedHead(std::unique_ptr<Layer> head) : head_(std::move(head)) {}
  std::string name() const override { return head_->name(); }
  std::vector<TensorSpec> tensors() const override { return head_->tensors(); }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    return head_->Footprint(shape);
  }
  int shared_layer() const override { return head_->shared_layer(); }
  int constants_layer() const override { return head_->constants_layer(); }
  int64_t ConstantBytes(const MicroBatchShape& shape) const override {
    return head_->ConstantBytes(shape);
  }
  void WriteConstants(const MicroBatchShape& shape, std::byte* target) const override {
    head_->WriteConstants(shape, target);
  }
  std::string Numerics(const MicroBatchShape& shape) const override {
    return head_->Numerics(shape);
  }
  absl::Status Forward(const LayerContext& context) const override {
    return head_->Forward(context);
  }
  absl::Status Backward(const LayerContext& context) const override {
    STRATA_RETURN_IF_ERROR(head_->Backward(context));
    if (context.inputs.tokens[0] == kPoisonToken && context.accumulator != nullptr) {
      context.accumulator[0] = std::numeric_limits<float>::quiet_NaN();
    }
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<Layer> head_;
};

TransformerConfig ToyShape() {
  return {.vocab = 131,
          .hidden = 64,
          .intermediate = 160,
          .layers = 3,
          .heads = 4,
          .kv_heads = 2,
          .head_dim = 16,
          .max_position = 64};
}

}  // namespace

ModelShape ToyModel(const ToyOptions& options) {
  TransformerConfig config = options.config.value_or(ToyShape());
  config.tied = options.tied;
  config.qkv_bias = config.output_bias = options.biased;
  config.qk_norm = options.qk_norm;
  LlamaOptions llama;
  if (options.frozen_blocks > 0) {
    llama.trainable = [blocks = options.frozen_blocks](absl::string_view name) {
      if (name == "model.embed_tokens.weight") return false;
      for (int32_t b = 0; b < blocks; ++b) {
        if (name.find("layers." + std::to_string(b) + ".") != absl::string_view::npos)
          return false;
      }
      // One frozen tensor inside a trained block.
      return name != "model.layers.2.self_attn.k_proj.weight";
    };
  }
  ModelShape model;
  model.layers = *BuildLlama(config, options.dtype, llama);
  model.layers.back() = std::make_unique<PoisonedHead>(std::move(model.layers.back()));
  model.micro_batch = {options.sequences, options.length};
  model.micro_batches = options.micro_batches;
  model.dtype = options.dtype;
  return model;
}

TensorReader ToyWeights() {
  return [](const TensorSpec& tensor, int64_t first, std::span<float> values) {
    const absl::Status status = RandomWeights(7)(tensor, first, values);
    if (tensor.shape.size() > 1) {
      for (float& value : values) value *= 5;
    }
    return status;
  };
}

Batch ToyBatch(const ModelShape& model, uint32_t seed, double trained, bool poisoned) {
  Batch batch(model.micro_batch.sequences, model.micro_batch.length);
  std::mt19937 random(seed);
  const int64_t vocab = model.layers.front()->tensors().front().shape.front();
  std::uniform_int_distribution<int32_t> token(6, static_cast<int32_t>(vocab) - 1);
  std::bernoulli_distribution train(trained);
  for (int64_t i = 0; i < batch.size(); ++i) {
    const size_t at = static_cast<size_t>(i);
    batch.tokens[at] = token(random);
    batch.targets[at] = train(random) ? token(random) : kIgnoredLabel;
    batch.positions[at] = static_cast<int32_t>(i % batch.length());
    batch.documents[at] = i % batch.length() < batch.length() / 3 ? 0 : 1;
  }
  if (poisoned) batch.tokens[0] = kPoisonToken;
  return batch;
}

MicroBatch Borrow(const Batch& batch) {
  return {batch.tokens, batch.targets, batch.positions, batch.documents};
}

}  // namespace strata
