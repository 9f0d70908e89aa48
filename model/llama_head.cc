#include <absl/strings/str_cat.h>

#include <algorithm>

#include "model/llama.h"
#include "model/memory_cutter.h"
#include "runtime/base/status.h"

namespace strata::internal {
namespace {

constexpr int64_t kChunkLogits = 32 << 20;  // elements: logits never exist whole

/// Rows whose logits are computed together: by shape only, since it decides bits.
int64_t ChunkRows(int64_t rows, int64_t vocab) {
  int64_t chunk = std::max<int64_t>(kChunkLogits / vocab, 1);
  if (chunk > 64) chunk = chunk / 64 * 64;
  return std::min(chunk, rows);
}

class Head final : public Layer {
 public:
  Head(const TransformerConfig& config, DType dtype, const LlamaOptions& options)
      : config_(config), dtype_(dtype) {
    if (!config.tied) {
      tensors_.push_back(
          MakeTensorSpec(options, "lm_head.weight", {config.vocab, config.hidden}));
    }
    tensors_.push_back(MakeTensorSpec(options, "model.norm.weight", {config.hidden}));
    layout_ = MakeLayout(*this);
  }

  std::string name() const override { return "head"; }
  std::vector<TensorSpec> tensors() const override { return tensors_; }
  int shared_layer() const override { return config_.tied ? 0 : -1; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    const double products = 2.0 * static_cast<double>(shape.tokens()) *
                            static_cast<double>(config_.vocab * config_.hidden);
    const Scratch scratch = Cut(shape, nullptr);
    return {.forward_workspace_bytes = scratch.forward_bytes,
            .backward_workspace_bytes = scratch.backward_bytes,
            .forward_flops = products,
            .backward_flops = 3 * products};
  }

  std::string Numerics(const MicroBatchShape& shape) const override {
    return absl::StrCat("logits of ", ChunkRows(shape.tokens(), config_.vocab),
                        " rows at once");
  }

  absl::Status Forward(const LayerContext& context) const override {
    if (context.logit_rows != nullptr) return RunRows(context);
    return Run(context, /*train=*/false);
  }
  absl::Status Backward(const LayerContext& context) const override {
    return Run(context, /*train=*/true);
  }

 private:
  struct Scratch {
    std::byte* normed;    // T [rows, hidden]
    std::byte* gathered;  // T [rows, hidden]
    float* inverse_rms;   // [rows]
    float* losses;        // [rows]
    float* logits;        // [chunk, vocab]
    int64_t forward_bytes;
    // In training only:
    std::byte*
        normed_gradient;  // T [rows, hidden]; `gathered`, which that does not use
    std::byte* logits_gradient;  // T [chunk, vocab]
    std::byte* norm;             // RmsNormBackward's workspace
    int64_t backward_bytes;
  };

  Scratch Cut(const MicroBatchShape& shape, std::byte* base) const {
    const int64_t rows = shape.tokens(), chunk = ChunkRows(rows, config_.vocab);
    MemoryCutter cut(base);
    const int64_t unit = SizeOf(dtype_);
    Scratch scratch{};
    scratch.normed = cut.Take(rows * config_.hidden * unit);
    scratch.gathered = cut.Take(rows * config_.hidden * unit);
    scratch.inverse_rms = cut.Take<float>(rows * 4);
    scratch.losses = cut.Take<float>(rows * 4);
    scratch.logits = cut.Take<float>(chunk * config_.vocab * 4);
    scratch.forward_bytes = cut.used_bytes();
    scratch.normed_gradient = scratch.gathered;
    scratch.logits_gradient = cut.Take(chunk * config_.vocab * unit);
    scratch.norm = cut.Take(RmsNormBackwardWorkspaceBytes(rows, config_.hidden));
    scratch.backward_bytes = cut.used_bytes();
    return scratch;
  }

  /// The head's weight [vocab, hidden], and where its gradient goes (null if frozen).
  const std::byte* Weight(const LayerContext& context) const {
    // A tied head reads the embedding, whose only tensor lies at element 0.
    if (config_.tied) return context.shared_weights;
    return context.weights +
           layout_.Find("lm_head.weight").first_element * SizeOf(dtype_);
  }
  float* Accumulator(const LayerContext& context) const {
    if (config_.tied) return context.shared_accumulator;
    const TensorPlacement& head = layout_.Find("lm_head.weight");
    return head.spec.trainable ? context.accumulator + head.first_element : nullptr;
  }

  absl::Status Run(const LayerContext& context, bool train) const;
  /// Only the logits of context.logit_rows.
  absl::Status RunRows(const LayerContext& context) const;
  absl::Status RunChunk(const LayerContext& context, const Scratch& scratch,
                        int64_t first, int64_t rows, bool train) const;

  const TransformerConfig config_;
  const DType dtype_;
  std::vector<TensorSpec> tensors_;
  LayerLayout layout_;
};

absl::Status Head::Run(const LayerContext& context, bool train) const {
  const int64_t rows = context.shape.tokens();
  const Scratch scratch = Cut(context.shape, context.workspace);
  const TensorPlacement& norm = layout_.Find("model.norm.weight");
  const void* const norm_weight = context.weights + norm.first_element * SizeOf(dtype_);
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };
  STRATA_RETURN_IF_ERROR(
      run(RmsNormForward{.output = scratch.normed,
                         .inverse_rms = scratch.inverse_rms,
                         .input = context.input,
                         .weight = norm_weight,
                         .rows = rows,
                         .width = config_.hidden,
                         .epsilon = static_cast<float>(config_.rms_norm_eps),
                         .dtype = dtype_}));
  const int64_t chunk = ChunkRows(rows, config_.vocab);
  for (int64_t first = 0; first < rows; first += chunk) {
    STRATA_RETURN_IF_ERROR(
        RunChunk(context, scratch, first, std::min(chunk, rows - first), train));
  }
  STRATA_RETURN_IF_ERROR(run(
      SumInOrder{.sum = context.loss_sum, .values = scratch.losses, .count = rows}));
  if (!train || (context.input_gradient == nullptr && !norm.spec.trainable)) {
    return absl::OkStatus();
  }
  // Where nobody below wants it, the gradient of the input may overwrite anything.
  return run(RmsNormBackward{
      .input_gradient =
          context.input_gradient == nullptr ? scratch.normed : context.input_gradient,
      .weight_accumulator =
          norm.spec.trainable ? context.accumulator + norm.first_element : nullptr,
      .output_gradient = scratch.normed_gradient,
      .residual_gradient = nullptr,
      .input = context.input,
      .weight = norm_weight,
      .inverse_rms = scratch.inverse_rms,
      .rows = rows,
      .width = config_.hidden,
      .dtype = dtype_,
      .workspace = scratch.norm});
}

absl::Status Head::RunRows(const LayerContext& context) const {
  const Scratch scratch = Cut(context.shape, context.workspace);
  const TensorPlacement& norm = layout_.Find("model.norm.weight");
  const int64_t rows = context.logit_row_count;
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };
  // To gather rows by number is what an embedding does.
  STRATA_RETURN_IF_ERROR(run(EmbeddingForward{.output = scratch.gathered,
                                              .weight = context.input,
                                              .tokens = context.logit_rows,
                                              .rows = rows,
                                              .width = config_.hidden,
                                              .vocab = context.shape.tokens(),
                                              .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(run(
      RmsNormForward{.output = scratch.normed,
                     .inverse_rms = scratch.inverse_rms,
                     .input = scratch.gathered,
                     .weight = context.weights + norm.first_element * SizeOf(dtype_),
                     .rows = rows,
                     .width = config_.hidden,
                     .epsilon = static_cast<float>(config_.rms_norm_eps),
                     .dtype = dtype_}));
  STRATA_RETURN_IF_ERROR(run(Matmul{.c = context.logits,
                                    .a = scratch.normed,
                                    .b = Weight(context),
                                    .m = rows,
                                    .n = config_.vocab,
                                    .k = config_.hidden,
                                    .transpose_b = true,
                                    .dtype = dtype_,
                                    .c_dtype = DType::kF32,
                                    .workspace = context.matmul_workspace}));
  return run(Fill{context.loss_sum, sizeof(double)});
}

absl::Status Head::RunChunk(const LayerContext& context, const Scratch& scratch,
                            int64_t first, int64_t rows, bool train) const {
  const int64_t hidden = config_.hidden, vocab = config_.vocab;
  const std::byte* const normed = scratch.normed + first * hidden * SizeOf(dtype_);
  float* const logits =
      context.logits == nullptr ? scratch.logits : context.logits + first * vocab;
  const auto run = [&](const auto& op) {
    return context.kernels.Run(context.stream, op);
  };
  STRATA_RETURN_IF_ERROR(run(Matmul{.c = logits,
                                    .a = normed,
                                    .b = Weight(context),
                                    .m = rows,
                                    .n = vocab,
                                    .k = hidden,
                                    .transpose_b = true,
                                    .dtype = dtype_,
                                    .c_dtype = DType::kF32,
                                    .workspace = context.matmul_workspace}));
  STRATA_RETURN_IF_ERROR(
      run(CrossEntropy{.losses = scratch.losses + first,
                       .gradient = train ? scratch.logits_gradient : nullptr,
                       .logits = logits,
                       .targets = context.inputs.targets + first,
                       .rows = rows,
                       .vocab = vocab,
                       .scale = context.loss_scale,
                       .dtype = dtype_}));
  if (!train) return absl::OkStatus();
  if (float* const accumulator = Accumulator(context); accumulator != nullptr) {
    STRATA_RETURN_IF_ERROR(run(Matmul{.c = accumulator,
                                      .a = scratch.logits_gradient,
                                      .b = normed,
                                      .m = vocab,
                                      .n = hidden,
                                      .k = rows,
                                      .transpose_a = true,
                                      .accumulate = true,
                                      .dtype = dtype_,
                                      .c_dtype = DType::kF32,
                                      .workspace = context.matmul_workspace}));
  }
  return run(Matmul{.c = scratch.normed_gradient + first * hidden * SizeOf(dtype_),
                    .a = scratch.logits_gradient,
                    .b = Weight(context),
                    .m = rows,
                    .n = hidden,
                    .k = vocab,
                    .dtype = dtype_,
                    .c_dtype = dtype_,
                    .workspace = context.matmul_workspace});
}

}  // namespace

std::unique_ptr<Layer> MakeLlamaHead(const TransformerConfig& config, DType dtype,
                                     const LlamaOptions& options) {
  return std::make_unique<Head>(config, dtype, options);
}

}  // namespace strata::internal
