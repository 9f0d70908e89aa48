/// One transformer block of a Llama-family model:
///
///   residual = input + o_proj(attention(rotate(qkv_proj(norm(input)))))
///   output = residual + down_proj(silu(gate) * up), gate and up of norm(residual)
///
/// Projections may have biases (Qwen2), and each head of queries and keys a norm before
/// it is rotated (Qwen3).
///
/// Forward keeps what Backward cannot make again cheaply; norms and the activation of
/// the MLP are computed twice.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/layer.h"
#include "model/linear.h"
#include "model/llama.h"

namespace strata::internal {

class LlamaBlock final : public Layer {
 public:
  /// `index` counts blocks from 0; block 0 owns the rotary tables.
  LlamaBlock(const TransformerConfig& config, DType dtype, const LlamaOptions& options,
             int64_t index);

  std::string name() const override;
  std::vector<TensorSpec> tensors() const override { return tensors_; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override;
  int constants_layer() const override;
  int64_t ConstantBytes(const MicroBatchShape& shape) const override;
  void WriteConstants(const MicroBatchShape& shape, std::byte* target) const override;
  absl::Status Forward(const LayerContext& context) const override;
  absl::Status Backward(const LayerContext& context) const override;

 private:
  /// What Forward keeps.
  struct Saved {
    std::byte* qkv;  // T [rows, qkv width], rotated
    /// T [rows, qkv width], as projected: `qkv` itself, but where heads are normalised,
    /// which happens on the way from here to `qkv`, and values stay here.
    std::byte* projected;
    float* query_rms;      // [rows, heads], inverse; null without norms of heads
    float* key_rms;        // [rows, kv_heads]
    std::byte* attention;  // T [rows, heads * head_dim]
    float* log_sum_exp;    // [heads, rows]
    std::byte* residual;   // T [rows, hidden]
    std::byte* gate_up;    // T [rows, 2 * intermediate]
    int64_t size_bytes;
  };
  struct ForwardScratch {
    std::byte* normed;      // T [rows, hidden]
    std::byte* activation;  // T [rows, intermediate]
    float* inverse_rms;     // [rows]
    int64_t size_bytes;
  };
  struct BackwardScratch {
    std::byte* normed;             // T [rows, hidden]
    std::byte* normed_gradient;    // T [rows, hidden]
    std::byte* residual_gradient;  // T [rows, hidden]
    float* inverse_rms;            // [rows]
    std::byte* sums;               // workspace of RmsNormBackward and BiasGradient
    // The two halves of the block use the same memory, one after the other.
    std::byte* activation;           // T [rows, intermediate]
    std::byte* activation_gradient;  // T [rows, intermediate]
    std::byte* gate_up_gradient;     // T [rows, 2 * intermediate]
    std::byte* attention_gradient;   // T [rows, heads * head_dim]
    std::byte* qkv_gradient;         // T [rows, qkv width]
    std::byte* attention;            // AttentionBackward's workspace
    int64_t size_bytes;
  };
  Saved CutSaved(const MicroBatchShape& shape, std::byte* base) const;
  ForwardScratch CutForward(const MicroBatchShape& shape, std::byte* base) const;
  BackwardScratch CutBackward(const MicroBatchShape& shape, std::byte* base) const;

  std::string FullName(absl::string_view name) const;
  int64_t Bytes(int64_t elements) const { return elements * SizeOf(dtype_); }
  int64_t TableElements(const MicroBatchShape& shape) const;
  float AttentionScale() const;
  bool HeadNormsTrain() const;

  absl::Status Norm(const LayerContext& context, const TensorPlacement& weight,
                    const std::byte* input, std::byte* output,
                    float* inverse_rms) const;
  /// From saved.projected to saved.qkv, head by head.
  absl::Status NormHeads(const LayerContext& context, const Saved& saved) const;
  absl::Status Rotate(const LayerContext& context, std::byte* qkv, bool inverse) const;
  absl::Status Attention(const LayerContext& context, const Saved& saved) const;
  absl::Status AddTo(const LayerContext& context, std::byte* sum,
                     const std::byte* term) const;
  absl::Status Activation(const LayerContext& context, const Saved& saved,
                          std::byte* activation) const;

  /// From output_gradient to scratch.residual_gradient.
  absl::Status BackwardMlp(const LayerContext& context, const Saved& saved,
                           const BackwardScratch& scratch) const;
  /// From scratch.residual_gradient to input_gradient.
  absl::Status BackwardAttention(const LayerContext& context, const Saved& saved,
                                 const BackwardScratch& scratch) const;
  /// Turns the gradients of normalised queries and keys into those of projected ones.
  absl::Status NormHeadsBackward(const LayerContext& context, const Saved& saved,
                                 const BackwardScratch& scratch) const;
  /// input_gradient = residual_gradient + that of the norm; they may be the same.
  absl::Status NormBackward(const LayerContext& context, const TensorPlacement& weight,
                            const std::byte* residual_gradient, const std::byte* input,
                            std::byte* input_gradient,
                            const BackwardScratch& scratch) const;

  const TransformerConfig config_;
  const DType dtype_;
  const int64_t index_;
  const int64_t query_width_, key_width_;  // elements of a row
  const std::vector<TensorSpec> tensors_;
  const LayerLayout layout_;
  const LinearGroup qkv_, output_, gate_up_, down_;
  const TensorPlacement& input_norm_;        // in layout_
  const TensorPlacement& attention_norm_;    // in layout_
  const TensorPlacement* const query_norm_;  // in layout_; null without qk_norm
  const TensorPlacement* const key_norm_;
};

}  // namespace strata::internal
