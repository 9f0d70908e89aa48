#include <absl/strings/str_cat.h>

#include <cmath>

#include "model/linear.h"
#include "model/llama.h"
#include "model/rotary.h"
#include "runtime/base/status.h"

namespace strata::internal {
namespace {

constexpr int64_t kAlignment = 256;  // bytes, of every tensor

/// Cuts a region into aligned parts, in order.
class Cutter {
 public:
  explicit Cutter(std::byte* base) : base_(base) {}
  template <typename T = std::byte>
  T* Take(int64_t size_bytes) {
    std::byte* const part = base_ == nullptr ? nullptr : base_ + used_;
    used_ += AlignUp(size_bytes, kAlignment);
    return reinterpret_cast<T*>(part);
  }
  int64_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  int64_t used_ = 0;
};

class Block final : public Layer {
 public:
  Block(const TransformerConfig& config, DType dtype, const LlamaOptions& options,
        int64_t index);

  std::string name() const override { return absl::StrCat("block.", index_); }
  std::vector<TensorSpec> tensors() const override { return tensors_; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override;

  // Layer 1 is block 0; all blocks read its rotary tables.
  int constants_layer() const override { return index_ == 0 ? -1 : 1; }
  int64_t ConstantBytes(const MicroBatchShape& shape) const override {
    return index_ == 0 ? 2 * TableElements(shape) * int64_t{sizeof(float)} : 0;
  }
  void WriteConstants(const MicroBatchShape& shape, std::byte* target) const override {
    float* const tables = reinterpret_cast<float*>(target);
    WriteRotaryTables(config_.rope, config_.head_dim, shape.length, tables,
                      tables + TableElements(shape));
  }

  absl::Status Forward(const LayerContext& context) const override;
  absl::Status Backward(const LayerContext& context) const override;

 private:
  /// What Forward keeps.
  struct Saved {
    float* inverse_rms1;  // [rows]
    void* qkv;            // T [rows, qkv width], rotated
    void* attention;      // T [rows, heads * head_dim]
    float* log_sum_exp;   // [heads, rows]
    void* residual;       // T [rows, hidden], input + attention
    float* inverse_rms2;  // [rows]
    void* gate_up;        // T [rows, 2 * intermediate]
    int64_t size_bytes;
  };
  struct ForwardScratch {
    void* normed;      // T [rows, hidden]
    void* activation;  // T [rows, intermediate]
    void* projected;   // T [rows, hidden]
    int64_t size_bytes;
  };
  struct BackwardScratch {
    void* activation;           // T [rows, intermediate]
    void* activation_gradient;  // T [rows, intermediate]
    void* gate_up_gradient;     // T [rows, 2 * intermediate]
    void* normed;               // T [rows, hidden]
    void* normed_gradient;      // T [rows, hidden]
    void* residual_gradient;    // T [rows, hidden]
    void* attention_gradient;   // T [rows, heads * head_dim]
    void* qkv_gradient;         // T [rows, qkv width]
    void* input_gradient;       // T [rows, hidden], where nobody below wants it
    float* inverse_rms;         // [rows], written again when a norm is recomputed
    std::byte* norm;            // RmsNormBackward's workspace
    std::byte* attention;       // AttentionBackward's workspace
    int64_t size_bytes;
  };

  Saved CutSaved(const MicroBatchShape& shape, std::byte* base) const;
  ForwardScratch CutForward(const MicroBatchShape& shape, std::byte* base) const;
  BackwardScratch CutBackward(const MicroBatchShape& shape, std::byte* base) const;

  int64_t TableElements(const MicroBatchShape& shape) const {
    return AlignUp(shape.length * config_.head_dim / 2, kAlignment / 4);
  }
  int64_t Bytes(int64_t elements) const { return elements * SizeOf(dtype_); }
  const void* Weight(const LayerContext& context, int64_t first_element) const {
    return context.weights + Bytes(first_element);
  }
  std::byte* At(void* data, int64_t element) const {
    return static_cast<std::byte*>(data) + Bytes(element);
  }
  const std::byte* At(const void* data, int64_t element) const {
    return static_cast<const std::byte*>(data) + Bytes(element);
  }
  absl::Status RotateQueriesAndKeys(const LayerContext& context, void* qkv,
                                    bool inverse) const;
  absl::Status Norm(const LayerContext& context, const TensorPlacement& weight,
                    const void* input, void* output, float* inverse_rms) const;
  absl::Status NormBackward(const LayerContext& context, const TensorPlacement& weight,
                            const void* output_gradient, const void* residual_gradient,
                            const void* input, const float* inverse_rms,
                            void* input_gradient, std::byte* workspace) const;
  absl::Status BackwardMlp(const LayerContext& context, const Saved& saved,
                           const BackwardScratch& scratch) const;
  absl::Status BackwardAttention(const LayerContext& context, const Saved& saved,
                                 const BackwardScratch& scratch) const;

  const TransformerConfig config_;
  const DType dtype_;
  const int64_t index_;
  const int64_t query_width_, key_width_;  // elements of a row
  std::vector<TensorSpec> tensors_;
  LayerLayout layout_;
  std::string prefix_;
  std::unique_ptr<LinearGroup> qkv_, output_, gate_up_, down_;
  const TensorPlacement* input_norm_;
  const TensorPlacement* attention_norm_;
};

Block::Block(const TransformerConfig& config, DType dtype, const LlamaOptions& options,
             int64_t index)
    : config_(config),
      dtype_(dtype),
      index_(index),
      query_width_(config.heads * config.head_dim),
      key_width_(config.kv_heads * config.head_dim),
      prefix_(absl::StrCat("model.layers.", index, ".")) {
  const int64_t hidden = config.hidden, inner = config.intermediate;
  const auto add = [&](absl::string_view name, std::vector<int64_t> shape) {
    tensors_.push_back(MakeTensorSpec(options, absl::StrCat(prefix_, name, ".weight"),
                                      std::move(shape)));
  };
  add("self_attn.q_proj", {query_width_, hidden});
  add("self_attn.k_proj", {key_width_, hidden});
  add("self_attn.v_proj", {key_width_, hidden});
  add("self_attn.o_proj", {hidden, query_width_});
  add("mlp.gate_proj", {inner, hidden});
  add("mlp.up_proj", {inner, hidden});
  add("mlp.down_proj", {hidden, inner});
  add("input_layernorm", {hidden});
  add("post_attention_layernorm", {hidden});
  layout_ = MakeLayout(*this);
  const auto full = [&](absl::string_view name) {
    return absl::StrCat(prefix_, name, ".weight");
  };
  qkv_ = std::make_unique<LinearGroup>(
      layout_, std::initializer_list<std::string>{full("self_attn.q_proj"),
                                                  full("self_attn.k_proj"),
                                                  full("self_attn.v_proj")});
  output_ = std::make_unique<LinearGroup>(
      layout_, std::initializer_list<std::string>{full("self_attn.o_proj")});
  gate_up_ = std::make_unique<LinearGroup>(
      layout_,
      std::initializer_list<std::string>{full("mlp.gate_proj"), full("mlp.up_proj")});
  down_ = std::make_unique<LinearGroup>(
      layout_, std::initializer_list<std::string>{full("mlp.down_proj")});
  input_norm_ = &layout_.Find(full("input_layernorm"));
  attention_norm_ = &layout_.Find(full("post_attention_layernorm"));
}

Block::Saved Block::CutSaved(const MicroBatchShape& shape, std::byte* base) const {
  const int64_t rows = shape.tokens();
  Cutter cut(base);
  Saved saved{};
  saved.inverse_rms1 = cut.Take<float>(rows * 4);
  saved.qkv = cut.Take(Bytes(rows * qkv_->outputs()));
  saved.attention = cut.Take(Bytes(rows * query_width_));
  saved.log_sum_exp = cut.Take<float>(rows * config_.heads * 4);
  saved.residual = cut.Take(Bytes(rows * config_.hidden));
  saved.inverse_rms2 = cut.Take<float>(rows * 4);
  saved.gate_up = cut.Take(Bytes(rows * 2 * config_.intermediate));
  saved.size_bytes = cut.used_bytes();
  return saved;
}

Block::ForwardScratch Block::CutForward(const MicroBatchShape& shape,
                                        std::byte* base) const {
  const int64_t rows = shape.tokens();
  Cutter cut(base);
  ForwardScratch scratch{};
  scratch.normed = cut.Take(Bytes(rows * config_.hidden));
  scratch.activation = cut.Take(Bytes(rows * config_.intermediate));
  scratch.projected = cut.Take(Bytes(rows * config_.hidden));
  scratch.size_bytes = cut.used_bytes();
  return scratch;
}

Block::BackwardScratch Block::CutBackward(const MicroBatchShape& shape,
                                          std::byte* base) const {
  const int64_t rows = shape.tokens();
  const int64_t hidden = config_.hidden, inner = config_.intermediate;
  Cutter cut(base);
  BackwardScratch scratch{};
  scratch.activation = cut.Take(Bytes(rows * inner));
  scratch.activation_gradient = cut.Take(Bytes(rows * inner));
  scratch.gate_up_gradient = cut.Take(Bytes(rows * 2 * inner));
  scratch.normed = cut.Take(Bytes(rows * hidden));
  scratch.normed_gradient = cut.Take(Bytes(rows * hidden));
  scratch.residual_gradient = cut.Take(Bytes(rows * hidden));
  scratch.attention_gradient = cut.Take(Bytes(rows * query_width_));
  scratch.qkv_gradient = cut.Take(Bytes(rows * qkv_->outputs()));
  scratch.input_gradient = cut.Take(Bytes(rows * hidden));
  scratch.inverse_rms = cut.Take<float>(rows * 4);
  scratch.norm = cut.Take(RmsNormBackwardWorkspaceBytes(rows, hidden));
  scratch.attention = cut.Take(AttentionBackwardWorkspaceBytes(rows, config_.heads));
  scratch.size_bytes = cut.used_bytes();
  return scratch;
}

LayerFootprint Block::Footprint(const MicroBatchShape& shape) const {
  const double rows = static_cast<double>(shape.tokens());
  const double products =
      2 * rows *
      static_cast<double>(config_.hidden * (qkv_->outputs() + query_width_) +
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

absl::Status Block::RotateQueriesAndKeys(const LayerContext& context, void* qkv,
                                         bool inverse) const {
  const float* const tables = reinterpret_cast<const float*>(context.constants);
  Rope rope{.values = qkv,
            .cosines = tables,
            .sines = tables + TableElements(context.shape),
            .positions = context.inputs.positions,
            .rows = context.shape.tokens(),
            .heads = config_.heads,
            .head_dim = config_.head_dim,
            .row_stride = qkv_->outputs(),
            .inverse = inverse,
            .dtype = dtype_};
  STRATA_RETURN_IF_ERROR(context.kernels.Run(context.stream, rope));
  rope.values = At(qkv, query_width_);
  rope.heads = config_.kv_heads;
  return context.kernels.Run(context.stream, rope);
}

absl::Status Block::Norm(const LayerContext& context, const TensorPlacement& weight,
                         const void* input, void* output, float* inverse_rms) const {
  return context.kernels.Run(
      context.stream,
      RmsNormForward{.output = output,
                     .inverse_rms = inverse_rms,
                     .input = input,
                     .weight = Weight(context, weight.first_element),
                     .rows = context.shape.tokens(),
                     .width = config_.hidden,
                     .epsilon = static_cast<float>(config_.rms_norm_eps),
                     .dtype = dtype_});
}

absl::Status Block::NormBackward(const LayerContext& context,
                                 const TensorPlacement& weight,
                                 const void* output_gradient,
                                 const void* residual_gradient, const void* input,
                                 const float* inverse_rms, void* input_gradient,
                                 std::byte* workspace) const {
  return context.kernels.Run(
      context.stream,
      RmsNormBackward{
          .input_gradient = input_gradient,
          .weight_accumulator = weight.spec.trainable
                                    ? context.accumulator + weight.first_element
                                    : nullptr,
          .output_gradient = output_gradient,
          .residual_gradient = residual_gradient,
          .input = input,
          .weight = Weight(context, weight.first_element),
          .inverse_rms = inverse_rms,
          .rows = context.shape.tokens(),
          .width = config_.hidden,
          .dtype = dtype_,
          .workspace = workspace});
}

absl::Status Block::Forward(const LayerContext& context) const {
  const int64_t rows = context.shape.tokens();
  const Saved saved = CutSaved(context.shape, context.saved);
  const ForwardScratch scratch = CutForward(context.shape, context.workspace);
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };

  STRATA_RETURN_IF_ERROR(
      Norm(context, *input_norm_, context.input, scratch.normed, saved.inverse_rms1));
  STRATA_RETURN_IF_ERROR(
      qkv_->Forward(context, dtype_, rows, scratch.normed, saved.qkv));
  STRATA_RETURN_IF_ERROR(RotateQueriesAndKeys(context, saved.qkv, false));
  STRATA_RETURN_IF_ERROR(run(AttentionForward{
      .output = saved.attention,
      .log_sum_exp = saved.log_sum_exp,
      .query = saved.qkv,
      .key = At(saved.qkv, query_width_),
      .value = At(saved.qkv, query_width_ + key_width_),
      .documents = context.inputs.documents,
      .sequences = context.shape.sequences,
      .length = context.shape.length,
      .heads = config_.heads,
      .kv_heads = config_.kv_heads,
      .head_dim = config_.head_dim,
      .row_stride = qkv_->outputs(),
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim))),
      .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(
      output_->Forward(context, dtype_, rows, saved.attention, scratch.projected));
  STRATA_RETURN_IF_ERROR(run(Add{.output = saved.residual,
                                 .a = context.input,
                                 .b = scratch.projected,
                                 .count = rows * config_.hidden,
                                 .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(Norm(context, *attention_norm_, saved.residual, scratch.normed,
                              saved.inverse_rms2));
  STRATA_RETURN_IF_ERROR(
      gate_up_->Forward(context, dtype_, rows, scratch.normed, saved.gate_up));
  if (context.output == nullptr) return absl::OkStatus();  // `saved` is complete
  STRATA_RETURN_IF_ERROR(
      run(SwiGluForward{.output = scratch.activation,
                        .gate = saved.gate_up,
                        .up = At(saved.gate_up, config_.intermediate),
                        .rows = rows,
                        .width = config_.intermediate,
                        .row_stride = gate_up_->outputs(),
                        .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(
      down_->Forward(context, dtype_, rows, scratch.activation, scratch.projected));
  return run(Add{.output = context.output,
                 .a = saved.residual,
                 .b = scratch.projected,
                 .count = rows * config_.hidden,
                 .dtype = dtype_});
}

absl::Status Block::Backward(const LayerContext& context) const {
  const Saved saved = CutSaved(context.shape, context.saved);
  const BackwardScratch scratch = CutBackward(context.shape, context.workspace);
  STRATA_RETURN_IF_ERROR(BackwardMlp(context, saved, scratch));
  return BackwardAttention(context, saved, scratch);
}

// From output_gradient to scratch.residual_gradient.
absl::Status Block::BackwardMlp(const LayerContext& context, const Saved& saved,
                                const BackwardScratch& scratch) const {
  const int64_t rows = context.shape.tokens();
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };
  const std::byte* const up = At(saved.gate_up, config_.intermediate);
  STRATA_RETURN_IF_ERROR(run(SwiGluForward{.output = scratch.activation,
                                           .gate = saved.gate_up,
                                           .up = up,
                                           .rows = rows,
                                           .width = config_.intermediate,
                                           .row_stride = gate_up_->outputs(),
                                           .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(down_->WeightGradient(
      context, dtype_, rows, context.output_gradient, scratch.activation));
  STRATA_RETURN_IF_ERROR(down_->InputGradient(
      context, dtype_, rows, context.output_gradient, scratch.activation_gradient));
  STRATA_RETURN_IF_ERROR(run(
      SwiGluBackward{.gate_gradient = scratch.gate_up_gradient,
                     .up_gradient = At(scratch.gate_up_gradient, config_.intermediate),
                     .output_gradient = scratch.activation_gradient,
                     .gate = saved.gate_up,
                     .up = up,
                     .rows = rows,
                     .width = config_.intermediate,
                     .row_stride = gate_up_->outputs(),
                     .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(Norm(context, *attention_norm_, saved.residual, scratch.normed,
                              scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(gate_up_->WeightGradient(
      context, dtype_, rows, scratch.gate_up_gradient, scratch.normed));
  STRATA_RETURN_IF_ERROR(gate_up_->InputGradient(
      context, dtype_, rows, scratch.gate_up_gradient, scratch.normed_gradient));
  return NormBackward(context, *attention_norm_, scratch.normed_gradient,
                      context.output_gradient, saved.residual, saved.inverse_rms2,
                      scratch.residual_gradient, scratch.norm);
}

// From scratch.residual_gradient to input_gradient.
absl::Status Block::BackwardAttention(const LayerContext& context, const Saved& saved,
                                      const BackwardScratch& scratch) const {
  const int64_t rows = context.shape.tokens();
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };
  STRATA_RETURN_IF_ERROR(output_->WeightGradient(
      context, dtype_, rows, scratch.residual_gradient, saved.attention));
  STRATA_RETURN_IF_ERROR(output_->InputGradient(
      context, dtype_, rows, scratch.residual_gradient, scratch.attention_gradient));
  STRATA_RETURN_IF_ERROR(run(AttentionBackward{
      .query_gradient = scratch.qkv_gradient,
      .key_gradient = At(scratch.qkv_gradient, query_width_),
      .value_gradient = At(scratch.qkv_gradient, query_width_ + key_width_),
      .output_gradient = scratch.attention_gradient,
      .output = saved.attention,
      .log_sum_exp = saved.log_sum_exp,
      .query = saved.qkv,
      .key = At(saved.qkv, query_width_),
      .value = At(saved.qkv, query_width_ + key_width_),
      .documents = context.inputs.documents,
      .sequences = context.shape.sequences,
      .length = context.shape.length,
      .heads = config_.heads,
      .kv_heads = config_.kv_heads,
      .head_dim = config_.head_dim,
      .row_stride = qkv_->outputs(),
      .scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config_.head_dim))),
      .dtype = dtype_,
      .workspace = scratch.attention}));
  STRATA_RETURN_IF_ERROR(RotateQueriesAndKeys(context, scratch.qkv_gradient, true));
  STRATA_RETURN_IF_ERROR(
      Norm(context, *input_norm_, context.input, scratch.normed, scratch.inverse_rms));
  STRATA_RETURN_IF_ERROR(qkv_->WeightGradient(context, dtype_, rows,
                                              scratch.qkv_gradient, scratch.normed));
  if (context.input_gradient == nullptr && !input_norm_->spec.trainable) {
    return absl::OkStatus();
  }
  STRATA_RETURN_IF_ERROR(qkv_->InputGradient(
      context, dtype_, rows, scratch.qkv_gradient, scratch.normed_gradient));
  return NormBackward(context, *input_norm_, scratch.normed_gradient,
                      scratch.residual_gradient, context.input, saved.inverse_rms1,
                      context.input_gradient == nullptr ? scratch.input_gradient
                                                        : context.input_gradient,
                      scratch.norm);
}

}  // namespace

std::unique_ptr<Layer> MakeLlamaBlock(const TransformerConfig& config, DType dtype,
                                      const LlamaOptions& options, int64_t index) {
  return std::make_unique<Block>(config, dtype, options, index);
}

}  // namespace strata::internal
