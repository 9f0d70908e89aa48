/// A Layer is arithmetic over resident memory. It sees pointers, a stream and kernels,
/// and never tiers, files or plans: the plan decides where bytes rest, and has brought
/// them before a layer runs. An application brings its own layers by implementing this.
///
/// A model is a list of layers. The first one reads the inputs (tokens), each hands its
/// output to the next, and the last one computes the loss. Layers keep no tensors of
/// their own: weights are one flat buffer per layer, in the order of tensors().
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "runtime/base/types.h"

namespace strata {

/// One tensor of a layer. Trainable tensors come before frozen ones in the flat buffer
/// (the builder of the layout sorts them; order is kept otherwise).
struct TensorSpec {
  std::string name;  // as in the checkpoint: "model.layers.0.mlp.up_proj.weight"
  std::vector<int64_t> shape;  // row-major
  bool trainable = true;
  bool decays = true;  // weight decay applies
};

/// Rows of one micro-batch, fixed for a run: part of the numerics profile.
struct MicroBatchShape {
  int64_t sequences;  // rows of the batch
  int64_t length;     // tokens in a row
  int64_t tokens() const { return sequences * length; }
};

/// Bytes of one micro-batch that the plan must find room for.
struct LayerFootprint {
  int64_t output_bytes = 0;              // what Forward hands on; 0 for the last layer
  int64_t saved_bytes = 0;               // what Forward keeps for Backward
  int64_t forward_workspace_bytes = 0;   // scratch
  int64_t backward_workspace_bytes = 0;  // scratch
  double forward_flops = 0;              // for the forecast
  double backward_flops = 0;             // without the recompute of Forward
};

/// What inputs of one micro-batch look like in memory (model/llama uses all of them).
struct MicroBatchInputs {
  const int32_t* tokens;     // [tokens]
  const int32_t* targets;    // [tokens], already shifted; kIgnoredLabel = not trained
  const int32_t* positions;  // [tokens]
  const int32_t* documents;  // [tokens]
};

/// All that one call may touch. Pointers that do not apply are null.
struct LayerContext {
  Stream& stream;
  Kernels& kernels;
  std::byte* matmul_workspace;    // Kernels::matmul_workspace_bytes()
  MicroBatchShape shape;          // of this call: in training always the planned one
  MicroBatchShape planned_shape;  // that Footprint and WriteConstants were asked for
  MicroBatchInputs inputs;
  const std::byte* constants;       // what Layer::WriteConstants made, on the device
  const std::byte* weights;         // flat, tensor i at offset i of the layout
  const std::byte* shared_weights;  // of layer shared_layer(), flat
  const std::byte* input;           // output of the layer before; null for the first.
                                    // Backward gets it again
  std::byte* output;                // Forward: to write; null for the last
  std::byte* saved;                 // Forward writes, Backward reads
  std::byte* workspace;
  // Backward only:
  const std::byte* output_gradient;  // null for the last layer
  std::byte* input_gradient;         // null if nobody below needs it
  float* accumulator;         // fp32, flat over the trainable tensors; += into it
  float* shared_accumulator;  // fp32, flat over the shared layer's trainable tensors
  // The last layer only:
  double* loss_sum;  // sum of the losses of this micro-batch's trained tokens
  float loss_scale;  // 1 / trained tokens of the whole step
  float* logits;     // null unless the caller wants them: F32 [tokens, vocab]
  /// Forward only. Not null: only the logits of these tokens are wanted,
  /// [logit_row_count, vocab], and no loss; each in [0, tokens).
  const int32_t* logit_rows;
  int64_t logit_row_count;
  /// Forward is run again to get `saved` back: `output` is null if nobody reads it.
  bool recompute;
};

/// Immutable after construction; the same object serves every micro-batch and step.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual std::string name() const = 0;  // "embedding", "block.3", "head"
  virtual std::vector<TensorSpec> tensors() const = 0;
  virtual LayerFootprint Footprint(const MicroBatchShape& shape) const = 0;

  /// Index of an earlier layer whose weights this one reads too (tied head), or -1.
  virtual int shared_layer() const { return -1; }

  /// Index of an earlier layer with the same constants, which this one is given in
  /// place of its own, or -1. (Every block reads the same rotary tables.)
  virtual int constants_layer() const { return -1; }

  /// Read-only tables that live on the device for the whole run (rotary tables).
  virtual int64_t ConstantBytes(const MicroBatchShape&) const { return 0; }
  virtual void WriteConstants(const MicroBatchShape&, std::byte* /*target*/) const {}

  /// What this layer chose that decides bits, beside its configuration, for the
  /// numerics profile: "logits of 64 rows at once". Empty if nothing.
  virtual std::string Numerics(const MicroBatchShape&) const { return ""; }

  /// The last layer's Forward computes only the loss (evaluation); in training only its
  /// Backward is called, which computes loss and gradient together.
  virtual absl::Status Forward(const LayerContext& context) const = 0;
  virtual absl::Status Backward(const LayerContext& context) const = 0;
};

/// Where each tensor lies in its layer's flat buffer. Tensors start at multiples of 128
/// elements (256 bytes in BF16); the trainable part and the whole are padded to a
/// multiple of kTileElements, so that slices can be cut at norm tiles and at 4 KiB.
/// Padding is zero and stays zero.
struct TensorPlacement {
  TensorSpec spec;
  int64_t first_element;
  int64_t count;
};
struct LayerLayout {
  std::vector<TensorPlacement> tensors;                       // trainable ones first
  int64_t trainable_elements = 0;                             // padded
  int64_t total_elements = 0;                                 // padded
  int64_t parameter_count = 0;                                // without padding
  const TensorPlacement& Find(absl::string_view name) const;  // CHECKs that it exists
  const TensorPlacement* FindOrNull(absl::string_view name) const;
};
LayerLayout MakeLayout(const Layer& layer);

}  // namespace strata
