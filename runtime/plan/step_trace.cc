#include "runtime/plan/step_trace.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cmath>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// No size in a trace may exceed this, so that sums and products with a few bytes per
/// element stay far from overflow.
constexpr int64_t kLargest = int64_t{1} << 48;

bool InRange(int64_t size) { return size >= 0 && size <= kLargest; }

absl::Status CheckWholeTrace(const StepTrace& trace) {
  const StateFormat& format = trace.format;
  if (trace.layers.empty()) {
    return absl::InvalidArgumentError("step trace: it has no layers; a step needs one");
  }
  if (format.weight <= 0 || format.weight > 64 || format.state < 0 ||
      format.state > 64 || format.gradient <= 0 || format.gradient > 64) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step trace: bytes of an element (weight ", format.weight, ", state ",
        format.state, ", gradient ", format.gradient,
        ") must be at most 64 and positive, but for state, which may be 0"));
  }
  if (trace.micro_batches < 1) {
    return absl::InvalidArgumentError(absl::StrCat("step trace: micro_batches is ",
                                                   trace.micro_batches,
                                                   "; a step takes at least one"));
  }
  if (trace.input_bytes <= 0 || !InRange(trace.input_bytes) ||
      !InRange(trace.constant_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("step trace: input_bytes ", trace.input_bytes,
                     " must be positive, constant_bytes ", trace.constant_bytes,
                     " not negative, both at most 2^48"));
  }
  if (trace.tile_elements <= 0 || !InRange(trace.tile_elements)) {
    return absl::InvalidArgumentError(
        absl::StrCat("step trace: tile_elements is ", trace.tile_elements,
                     "; it must be positive and at most 2^48"));
  }
  if (trace.world < 1 || trace.rank < 0 || trace.rank >= trace.world) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step trace: rank ", trace.rank, " is not one of a world of ", trace.world));
  }
  return absl::OkStatus();
}

template <typename... What>
absl::Status LayerError(const StepTrace& trace, int32_t layer, const What&... what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "step trace: layer ", layer, " '", trace.layers[layer].name, "': ", what...));
}

absl::Status CheckElements(const StepTrace& trace, int32_t layer) {
  const LayerTrace& l = trace.layers[layer];
  if (!InRange(l.trainable_elements) || !InRange(l.total_elements) ||
      l.trainable_elements % trace.tile_elements != 0 ||
      l.total_elements % trace.tile_elements != 0) {
    return LayerError(trace, layer, "trainable_elements ", l.trainable_elements,
                      " and total_elements ", l.total_elements,
                      " must be multiples of the tile of ", trace.tile_elements,
                      " elements, from 0 to 2^48; pad the flat buffer");
  }
  if (l.trainable_elements > l.total_elements) {
    return LayerError(trace, layer, "trainable_elements ", l.trainable_elements,
                      " exceed total_elements ", l.total_elements);
  }
  if (l.shared_layer < -1 || l.shared_layer >= layer) {
    return LayerError(trace, layer, "shared_layer is ", l.shared_layer,
                      "; it must be an earlier layer, or -1");
  }
  if (l.shared_layer >= 0 && trace.Sharer(l.shared_layer) != layer) {
    return LayerError(trace, layer, "shares the weights of layer ", l.shared_layer,
                      ", and so does layer ", trace.Sharer(l.shared_layer),
                      "; at most one may");
  }
  return absl::OkStatus();
}

absl::Status CheckComputation(const StepTrace& trace, int32_t layer) {
  const LayerTrace& l = trace.layers[layer];
  const auto error = [&](const auto&... what) {
    return LayerError(trace, layer, what...);
  };
  const bool last = layer == trace.layer_count() - 1;
  for (const int64_t size : {l.output_bytes, l.saved_bytes, l.forward_workspace_bytes,
                             l.backward_workspace_bytes}) {
    if (!InRange(size)) return error("size ", size, " is negative or above 2^48");
  }
  if (last != (l.output_bytes == 0)) {
    return error("output_bytes is ", l.output_bytes,
                 "; it must be 0 for the last layer and for no other");
  }
  if (last && l.saved_bytes != 0) {
    return error("saved_bytes is ", l.saved_bytes,
                 "; the last layer keeps nothing, as its backward computes the loss");
  }
  for (const double flops : {l.forward_flops, l.backward_flops}) {
    if (!std::isfinite(flops) || flops < 0) {
      return error(flops, " FLOP are not a finite amount of work");
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t StepTrace::FirstTile(int32_t layer) const {
  int64_t tiles = 0;
  for (int32_t l = 0; l < layer; ++l) tiles += TileCount(l);
  return tiles;
}

int32_t StepTrace::LowestTrainable() const {
  int32_t layer = 0;
  while (layer < layer_count() && layers[layer].trainable_elements == 0) ++layer;
  return layer;
}

int32_t StepTrace::Sharer(int32_t layer) const {
  for (int32_t l = layer + 1; l < layer_count(); ++l) {
    if (layers[l].shared_layer == layer) return l;
  }
  return -1;
}

absl::Status ValidateTrace(const StepTrace& trace) {
  STRATA_RETURN_IF_ERROR(CheckWholeTrace(trace));
  for (int32_t layer = 0; layer < trace.layer_count(); ++layer) {
    STRATA_RETURN_IF_ERROR(CheckElements(trace, layer));
    STRATA_RETURN_IF_ERROR(CheckComputation(trace, layer));
  }
  return absl::OkStatus();
}

}  // namespace strata
