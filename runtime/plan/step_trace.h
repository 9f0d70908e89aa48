/// A StepTrace says what one training step needs, and nothing about where it rests: the
/// model writes it, the planner reads it. Sizes are bytes of one micro-batch or elements
/// of one layer's flat buffer.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace strata {

struct LayerTrace {
  std::string name;  // "block.3"
  /// Elements of the flat buffer that have gradient and state: the front part of it. Both
  /// counts are multiples of StepTrace::tile_elements. 0 = the layer is frozen.
  int64_t trainable_elements = 0;
  int64_t total_elements = 0;
  /// An earlier layer whose weights this one reads too, and adds gradient for (tied
  /// embeddings), or -1. At most one layer shares with any one layer.
  int32_t shared_layer = -1;
  int64_t output_bytes = 0;  // 0 for the last layer only
  int64_t saved_bytes = 0;   // what Forward keeps for Backward
  int64_t forward_workspace_bytes = 0;
  int64_t backward_workspace_bytes = 0;
  double forward_flops = 0;
  double backward_flops = 0;  // without the recompute
};

/// Bytes of one element in each kind of state. The layout is data: fp32 is {4, 8, 4},
/// bf16 with the lossless master {2, 10, 2} (remainder 2, moments 4 + 4).
struct StateFormat {
  int64_t weight = 4;     // what the layers read; a speculated weight has the same
  int64_t state = 8;      // all that only the optimizer reads, packed by slice
  int64_t gradient = 4;   // rounded, while it waits
  friend bool operator==(const StateFormat&, const StateFormat&) = default;
};
inline constexpr int64_t kAccumulatorBytes = 4;  // fp32, for each trainable element

struct StepTrace {
  std::vector<LayerTrace> layers;  // the first reads inputs, the last computes the loss
  StateFormat format;
  int32_t micro_batches = 1;     // of a full step
  int64_t input_bytes = 0;       // of one micro-batch, host to device
  int64_t constant_bytes = 0;    // read-only, on the device for the whole run
  int64_t tile_elements = 8192;  // unit of the gradient norm and of slices
  /// Global-norm clipping, or anything else that makes an update wait for the end of the
  /// backward: updates are deferred or lagged. False: they may run under the backward.
  bool updates_wait_for_norm = true;
  int32_t rank = 0;
  int32_t world = 1;

  int32_t layer_count() const { return static_cast<int32_t>(layers.size()); }
  int64_t TileCount(int32_t layer) const {
    return layers[layer].trainable_elements / tile_elements;
  }
  /// Index of the layer's first tile in canonical order.
  int64_t FirstTile(int32_t layer) const;
  int64_t TotalTiles() const { return FirstTile(layer_count()); }
  /// The lowest layer that is trained; the backward ends there. layer_count() if none is.
  int32_t LowestTrainable() const;
  /// The layer that shares the weights of `layer`, or -1.
  int32_t Sharer(int32_t layer) const;
};

/// InvalidArgument, naming the layer, unless everything above holds.
absl::Status ValidateTrace(const StepTrace& trace);

}  // namespace strata
