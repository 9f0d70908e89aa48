#include "model/llama_block.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "model/memory_cutter.h"
#include "model/rotary.h"
#include "runtime/base/status.h"

namespace strata::internal {
namespace {

std::string TensorName(int64_t index, absl::string_view name) {
  return absl::StrCat("model.layers.", index, ".", name);
}

/// Matrices that read the same input are neighbours, so that one product does for them.
std::vector<TensorSpec> BlockTensors(const TransformerConfig& config,
                                     const LlamaOptions& options, int64_t index) {
  const int64_t hidden = config.hidden, inner = config.intermediate;
  const int64_t query = config.heads * config.head_dim;
  const int64_t key = config.kv_heads * config.head_dim;
  std::vector<TensorSpec> tensors;
  const auto add = [&](absl::string_view name, std::vector<int64_t> shape) {
    tensors.push_back(
        MakeTensorSpec(options, TensorName(index, name), std::move(shape)));
  };
  add("self_attn.q_proj.weight", {query, hidden});
  add("self_attn.k_proj.weight", {key, hidden});
  add("self_attn.v_proj.weight", {key, hidden});
  add("self_attn.o_proj.weight", {hidden, query});
  add("mlp.gate_proj.weight", {inner, hidden});
  add("mlp.up_proj.weight", {inner, hidden});
  add("mlp.down_proj.weight", {hidden, inner});
  add("input_layernorm.weight", {hidden});
  add("post_attention_layernorm.weight", {hidden});
  if (config.qk_norm) {
    add("self_attn.q_norm.weight", {config.head_dim});
    add("self_attn.k_norm.weight", {config.head_dim});
  }
  if (config.qkv_bias) {
    add("self_attn.q_proj.bias", {query});
    add("self_attn.k_proj.bias", {key});
    add("self_attn.v_proj.bias", {key});
  }
  if (config.output_bias) add("self_attn.o_proj.bias", {hidden});
  return tensors;
}

}  // namespace

LlamaBlock::LlamaBlock(const TransformerConfig& config, DType dtype,
                       const LlamaOptions& options, int64_t index)
    : config_(config),
      dtype_(dtype),
      index_(index),
      query_width_(config.heads * config.head_dim),
      key_width_(config.kv_heads * config.head_dim),
      tensors_(BlockTensors(config, options, index)),
      layout_(MakeLayout(*this)),
      qkv_(layout_, {FullName("self_attn.q_proj"), FullName("self_attn.k_proj"),
                     FullName("self_attn.v_proj")}),
      output_(layout_, {FullName("self_attn.o_proj")}),
      gate_up_(layout_, {FullName("mlp.gate_proj"), FullName("mlp.up_proj")}),
      down_(layout_, {FullName("mlp.down_proj")}),
      input_norm_(layout_.Find(FullName("input_layernorm.weight"))),
      attention_norm_(layout_.Find(FullName("post_attention_layernorm.weight"))),
      query_norm_(layout_.FindOrNull(FullName("self_attn.q_norm.weight"))),
      key_norm_(layout_.FindOrNull(FullName("self_attn.k_norm.weight"))) {}

std::string LlamaBlock::name() const { return absl::StrCat("block.", index_); }

std::string LlamaBlock::FullName(absl::string_view name) const {
  return TensorName(index_, name);
}

LlamaBlock::Saved LlamaBlock::CutSaved(const MicroBatchShape& shape,
                                       std::byte* base) const {
  const int64_t rows = shape.tokens();
  MemoryCutter cut(base);
  Saved saved{};
  saved.qkv = cut.Take(Bytes(rows * qkv_.outputs()));
  saved.projected = saved.qkv;
  if (config_.qk_norm) {
    saved.projected = cut.Take(Bytes(rows * qkv_.outputs()));
    saved.query_rms = cut.Take<float>(rows * config_.heads * 4);
    saved.key_rms = cut.Take<float>(rows * config_.kv_heads * 4);
  }
  saved.attention = cut.Take(Bytes(rows * query_width_));
  saved.log_sum_exp = cut.Take<float>(rows * config_.heads * 4);
  saved.residual = cut.Take(Bytes(rows * config_.hidden));
  saved.gate_up = cut.Take(Bytes(rows * gate_up_.outputs()));
  saved.size_bytes = cut.used_bytes();
  return saved;
}

LlamaBlock::ForwardScratch LlamaBlock::CutForward(const MicroBatchShape& shape,
                                                  std::byte* base) const {
  const int64_t rows = shape.tokens();
  MemoryCutter cut(base);
  ForwardScratch scratch{};
  scratch.normed = cut.Take(Bytes(rows * config_.hidden));
  scratch.activation = cut.Take(Bytes(rows * config_.intermediate));
  scratch.inverse_rms = cut.Take<float>(rows * 4);
  scratch.size_bytes = cut.used_bytes();
  return scratch;
}

LayerFootprint LlamaBlock::Footprint(const MicroBatchShape& shape) const {
  const auto rows = static_cast<double>(shape.tokens());
  const double products =
      2 * rows *
      static_cast<double>(config_.hidden * (qkv_.outputs() + query_width_) +
                          3 * config_.hidden * config_.intermediate);
  // Causal: half of the scores of each row of length `length`.
  const double attention =
      2 * rows * static_cast<double>(shape.length) * static_cast<double>(query_width_);
  return {.output_bytes = Bytes(shape.tokens() * config_.hidden),
          .saved_bytes = CutSaved(shape, nullptr).size_bytes,
          .forward_workspace_bytes = CutForward(shape, nullptr).size_bytes,
          .backward_workspace_bytes = CutBackward(shape, nullptr).size_bytes,
          .forward_flops = products + attention,
          .backward_flops = 2 * products + 2.5 * attention};
}

// Layer 1 is block 0; all blocks read its rotary tables.
int LlamaBlock::constants_layer() const { return index_ == 0 ? -1 : 1; }

int64_t LlamaBlock::TableElements(const MicroBatchShape& shape) const {
  return AlignUp(shape.length * config_.head_dim / 2,
                 MemoryCutter::kAlignment / int64_t{sizeof(float)});
}

int64_t LlamaBlock::ConstantBytes(const MicroBatchShape& shape) const {
  return index_ == 0 ? 2 * TableElements(shape) * int64_t{sizeof(float)} : 0;
}

void LlamaBlock::WriteConstants(const MicroBatchShape& shape, std::byte* target) const {
  float* const tables = reinterpret_cast<float*>(target);
  WriteRotaryTables(config_.rope, config_.head_dim, shape.length, tables,
                    tables + TableElements(shape));
}

float LlamaBlock::AttentionScale() const {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim)));
}

absl::Status LlamaBlock::Norm(const LayerContext& context,
                              const TensorPlacement& weight, const std::byte* input,
                              std::byte* output, float* inverse_rms) const {
  return context.kernels.Run(
      context.stream,
      RmsNormForward{.output = output,
                     .inverse_rms = inverse_rms,
                     .input = input,
                     .weight = context.weights + Bytes(weight.first_element),
                     .rows = context.shape.tokens(),
                     .width = config_.hidden,
                     .epsilon = static_cast<float>(config_.rms_norm_eps),
                     .dtype = dtype_});
}

absl::Status LlamaBlock::NormHeads(const LayerContext& context,
                                   const Saved& saved) const {
  const auto norm = [&](const TensorPlacement& weight, int64_t first_column,
                        int64_t heads, float* inverse_rms) {
    return context.kernels.Run(
        context.stream,
        RmsNormForward{.output = saved.qkv + Bytes(first_column),
                       .inverse_rms = inverse_rms,
                       .input = saved.projected + Bytes(first_column),
                       .weight = context.weights + Bytes(weight.first_element),
                       .rows = context.shape.tokens() * heads,
                       .width = config_.head_dim,
                       .groups = {.rows = heads, .stride = qkv_.outputs()},
                       .epsilon = static_cast<float>(config_.rms_norm_eps),
                       .dtype = dtype_});
  };
  STRATA_RETURN_IF_ERROR(norm(*query_norm_, 0, config_.heads, saved.query_rms));
  return norm(*key_norm_, query_width_, config_.kv_heads, saved.key_rms);
}

absl::Status LlamaBlock::Rotate(const LayerContext& context, std::byte* qkv,
                                bool inverse) const {
  const auto* const tables = reinterpret_cast<const float*>(context.constants);
  return context.kernels.Run(
      context.stream, Rope{.values = qkv,
                           .cosines = tables,
                           .sines = tables + TableElements(context.planned_shape),
                           .positions = context.inputs.positions,
                           .rows = context.shape.tokens(),
                           // Keys stand behind the queries of a row.
                           .heads = config_.heads + config_.kv_heads,
                           .head_dim = config_.head_dim,
                           .row_stride = qkv_.outputs(),
                           .inverse = inverse,
                           .dtype = dtype_});
}

absl::Status LlamaBlock::Attention(const LayerContext& context,
                                   const Saved& saved) const {
  return context.kernels.Run(
      context.stream,
      AttentionForward{.output = saved.attention,
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
                       .dtype = dtype_});
}

absl::Status LlamaBlock::AddTo(const LayerContext& context, std::byte* sum,
                               const std::byte* term) const {
  return context.kernels.Run(context.stream,
                             Add{.output = sum,
                                 .a = term,
                                 .b = sum,
                                 .count = context.shape.tokens() * config_.hidden,
                                 .dtype = dtype_});
}

absl::Status LlamaBlock::Activation(const LayerContext& context, const Saved& saved,
                                    std::byte* activation) const {
  return context.kernels.Run(
      context.stream, SwiGluForward{.output = activation,
                                    .gate = saved.gate_up,
                                    .up = saved.gate_up + Bytes(config_.intermediate),
                                    .rows = context.shape.tokens(),
                                    .width = config_.intermediate,
                                    .row_stride = gate_up_.outputs(),
                                    .dtype = dtype_});
}

absl::Status LlamaBlock::Forward(const LayerContext& context) const {
  const int64_t rows = context.shape.tokens();
  const Saved saved = CutSaved(context.shape, context.saved);
  const ForwardScratch scratch = CutForward(context.shape, context.workspace);

  STRATA_RETURN_IF_ERROR(
      Norm(context, input_norm_, context.input, scratch.normed, scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(
      qkv_.Forward(context, dtype_, rows, scratch.normed, saved.projected));
  if (config_.qk_norm) STRATA_RETURN_IF_ERROR(NormHeads(context, saved));
  STRATA_RETURN_IF_ERROR(Rotate(context, saved.qkv, /*inverse=*/false));
  STRATA_RETURN_IF_ERROR(Attention(context, saved));
  STRATA_RETURN_IF_ERROR(
      output_.Forward(context, dtype_, rows, saved.attention, saved.residual));
  STRATA_RETURN_IF_ERROR(AddTo(context, saved.residual, context.input));
  STRATA_RETURN_IF_ERROR(Norm(context, attention_norm_, saved.residual, scratch.normed,
                              scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(
      gate_up_.Forward(context, dtype_, rows, scratch.normed, saved.gate_up));
  if (context.output == nullptr) return absl::OkStatus();  // `saved` is complete
  STRATA_RETURN_IF_ERROR(Activation(context, saved, scratch.activation));
  STRATA_RETURN_IF_ERROR(
      down_.Forward(context, dtype_, rows, scratch.activation, context.output));
  return AddTo(context, context.output, saved.residual);
}

std::unique_ptr<Layer> MakeLlamaBlock(const TransformerConfig& config, DType dtype,
                                      const LlamaOptions& options, int64_t index) {
  return std::make_unique<LlamaBlock>(config, dtype, options, index);
}

}  // namespace strata::internal
