#include <algorithm>

#include "model/llama_block.h"
#include "model/memory_cutter.h"
#include "runtime/base/status.h"

namespace strata::internal {

LlamaBlock::BackwardScratch LlamaBlock::CutBackward(const MicroBatchShape& shape,
                                                    std::byte* base) const {
  const int64_t rows = shape.tokens();
  const int64_t hidden = config_.hidden, inner = config_.intermediate;
  BackwardScratch scratch{};
  MemoryCutter common(base);
  scratch.normed = common.Take(Bytes(rows * hidden));
  scratch.normed_gradient = common.Take(Bytes(rows * hidden));
  scratch.residual_gradient = common.Take(Bytes(rows * hidden));
  scratch.inverse_rms = common.Take<float>(rows * 4);
  scratch.sums = common.Take(std::max(
      {RmsNormBackwardWorkspaceBytes(rows, hidden),
       config_.qk_norm
           ? RmsNormBackwardWorkspaceBytes(rows * config_.heads, config_.head_dim)
           : 0,
       qkv_.GradientWorkspaceBytes(rows), output_.GradientWorkspaceBytes(rows)}));

  MemoryCutter mlp = common;
  scratch.activation = mlp.Take(Bytes(rows * inner));
  scratch.activation_gradient = mlp.Take(Bytes(rows * inner));
  scratch.gate_up_gradient = mlp.Take(Bytes(rows * gate_up_.outputs()));

  MemoryCutter attention = common;
  scratch.attention_gradient = attention.Take(Bytes(rows * query_width_));
  scratch.qkv_gradient = attention.Take(Bytes(rows * qkv_.outputs()));
  scratch.attention =
      attention.Take(AttentionBackwardWorkspaceBytes(rows, config_.heads));

  scratch.size_bytes = std::max(mlp.used_bytes(), attention.used_bytes());
  return scratch;
}

absl::Status LlamaBlock::NormBackward(const LayerContext& context,
                                      const TensorPlacement& weight,
                                      const std::byte* residual_gradient,
                                      const std::byte* input, std::byte* input_gradient,
                                      const BackwardScratch& scratch) const {
  float* const accumulator =
      weight.spec.trainable ? context.accumulator + weight.first_element : nullptr;
  return context.kernels.Run(
      context.stream,
      RmsNormBackward{.input_gradient = input_gradient,
                      .weight_accumulator = accumulator,
                      .output_gradient = scratch.normed_gradient,
                      .residual_gradient = residual_gradient,
                      .input = input,
                      .weight = context.weights + Bytes(weight.first_element),
                      .inverse_rms = scratch.inverse_rms,
                      .rows = context.shape.tokens(),
                      .width = config_.hidden,
                      .dtype = dtype_,
                      .workspace = scratch.sums});
}

absl::Status LlamaBlock::NormHeadsBackward(const LayerContext& context,
                                           const Saved& saved,
                                           const BackwardScratch& scratch) const {
  const auto norm = [&](const TensorPlacement& weight, int64_t first_column,
                        int64_t heads, const float* inverse_rms) {
    std::byte* const gradient = scratch.qkv_gradient + Bytes(first_column);
    return context.kernels.Run(
        context.stream,
        RmsNormBackward{
            .input_gradient = gradient,
            .weight_accumulator = weight.spec.trainable
                                      ? context.accumulator + weight.first_element
                                      : nullptr,
            .output_gradient = gradient,
            .residual_gradient = nullptr,
            .input = saved.projected + Bytes(first_column),
            .weight = context.weights + Bytes(weight.first_element),
            .inverse_rms = inverse_rms,
            .rows = context.shape.tokens() * heads,
            .width = config_.head_dim,
            .groups = {.rows = heads, .stride = qkv_.outputs()},
            .dtype = dtype_,
            .workspace = scratch.sums});
  };
  STRATA_RETURN_IF_ERROR(norm(*query_norm_, 0, config_.heads, saved.query_rms));
  return norm(*key_norm_, query_width_, config_.kv_heads, saved.key_rms);
}

absl::Status LlamaBlock::BackwardMlp(const LayerContext& context, const Saved& saved,
                                     const BackwardScratch& scratch) const {
  const int64_t rows = context.shape.tokens();
  if (down_.trains()) {
    STRATA_RETURN_IF_ERROR(Activation(context, saved, scratch.activation));
    STRATA_RETURN_IF_ERROR(down_.WeightGradient(context, dtype_, rows,
                                                context.output_gradient,
                                                scratch.activation, scratch.sums));
  }
  STRATA_RETURN_IF_ERROR(down_.InputGradient(
      context, dtype_, rows, context.output_gradient, scratch.activation_gradient));
  STRATA_RETURN_IF_ERROR(context.kernels.Run(
      context.stream, SwiGluBackward{.gate_gradient = scratch.gate_up_gradient,
                                     .up_gradient = scratch.gate_up_gradient +
                                                    Bytes(config_.intermediate),
                                     .output_gradient = scratch.activation_gradient,
                                     .gate = saved.gate_up,
                                     .up = saved.gate_up + Bytes(config_.intermediate),
                                     .rows = rows,
                                     .width = config_.intermediate,
                                     .row_stride = gate_up_.outputs(),
                                     .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(Norm(context, attention_norm_, saved.residual, scratch.normed,
                              scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(gate_up_.WeightGradient(
      context, dtype_, rows, scratch.gate_up_gradient, scratch.normed, scratch.sums));
  STRATA_RETURN_IF_ERROR(gate_up_.InputGradient(
      context, dtype_, rows, scratch.gate_up_gradient, scratch.normed_gradient));
  return NormBackward(context, attention_norm_, context.output_gradient, saved.residual,
                      scratch.residual_gradient, scratch);
}

absl::Status LlamaBlock::BackwardAttention(const LayerContext& context,
                                           const Saved& saved,
                                           const BackwardScratch& scratch) const {
  const int64_t rows = context.shape.tokens();
  STRATA_RETURN_IF_ERROR(output_.WeightGradient(
      context, dtype_, rows, scratch.residual_gradient, saved.attention, scratch.sums));
  STRATA_RETURN_IF_ERROR(output_.InputGradient(
      context, dtype_, rows, scratch.residual_gradient, scratch.attention_gradient));
  STRATA_RETURN_IF_ERROR(context.kernels.Run(
      context.stream,
      AttentionBackward{
          .query_gradient = scratch.qkv_gradient,
          .key_gradient = scratch.qkv_gradient + Bytes(query_width_),
          .value_gradient = scratch.qkv_gradient + Bytes(query_width_ + key_width_),
          .output_gradient = scratch.attention_gradient,
          .output = saved.attention,
          .log_sum_exp = saved.log_sum_exp,
          .query = saved.qkv,
          .key = saved.qkv + Bytes(query_width_),
          .value = saved.projected + Bytes(query_width_ + key_width_),
          .documents = context.inputs.documents,
          .sequences = context.shape.sequences,
          .length = context.shape.length,
          .heads = config_.heads,
          .kv_heads = config_.kv_heads,
          .head_dim = config_.head_dim,
          .row_stride = qkv_.outputs(),
          .scale = AttentionScale(),
          .dtype = dtype_,
          .workspace = scratch.attention}));
  STRATA_RETURN_IF_ERROR(Rotate(context, scratch.qkv_gradient, /*inverse=*/true));
  if (config_.qk_norm) {
    STRATA_RETURN_IF_ERROR(NormHeadsBackward(context, saved, scratch));
  }
  STRATA_RETURN_IF_ERROR(
      Norm(context, input_norm_, context.input, scratch.normed, scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(qkv_.WeightGradient(
      context, dtype_, rows, scratch.qkv_gradient, scratch.normed, scratch.sums));
  if (context.input_gradient == nullptr && !input_norm_.spec.trainable) {
    return absl::OkStatus();
  }
  STRATA_RETURN_IF_ERROR(qkv_.InputGradient(context, dtype_, rows, scratch.qkv_gradient,
                                            scratch.normed_gradient));
  // Where nobody below wants it, the gradient of the input may overwrite anything.
  std::byte* const input_gradient = context.input_gradient == nullptr
                                        ? scratch.residual_gradient
                                        : context.input_gradient;
  return NormBackward(context, input_norm_, scratch.residual_gradient, context.input,
                      input_gradient, scratch);
}

bool LlamaBlock::HeadNormsTrain() const {
  return config_.qk_norm && (query_norm_->spec.trainable || key_norm_->spec.trainable);
}

absl::Status LlamaBlock::Backward(const LayerContext& context) const {
  const Saved saved = CutSaved(context.shape, context.saved);
  const BackwardScratch scratch = CutBackward(context.shape, context.workspace);
  STRATA_RETURN_IF_ERROR(BackwardMlp(context, saved, scratch));
  const bool ends_here = context.input_gradient == nullptr && !qkv_.trains() &&
                         !output_.trains() && !input_norm_.spec.trainable &&
                         !HeadNormsTrain();
  return ends_here ? absl::OkStatus() : BackwardAttention(context, saved, scratch);
}

}  // namespace strata::internal
