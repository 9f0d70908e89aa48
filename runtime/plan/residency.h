/// Decides which tier each shard rests in, for one way of ordering the step.
#pragma once

#include <absl/status/statusor.h>

#include "runtime/plan/decisions.h"
#include "runtime/plan/planner.h"

namespace strata {

/// One way of going through a step; what residency leaves open.
struct StepOrder {
  int32_t segment_layers = 1;
  int32_t groups = 1;
  int32_t depth = 2;           // how far the lanes run ahead: 0, 1, 2
  int64_t slice_elements = 0;  // at most so many elements in a slice
  TierKind activations = TierKind::kHost;
  double lagged_share = 0;  // of the slices whose weights and state are off the device
  double cpu_share = 0;     // likewise
  /// Of the layers, whose weights come home to the device before any state does: they
  /// cross the link twice a step, but what is at home there does not lag.
  double weight_share = 0;
  friend auto operator<=>(const StepOrder&, const StepOrder&) = default;
};

/// The same number for orders that differ in their shares only.
constexpr int64_t KindOf(const StepOrder& order) {
  return ((int64_t{order.groups} << 32) + order.segment_layers) * 16 + order.depth * 4 +
         static_cast<int64_t>(order.activations);
}

/// Slices whose state is on the device at once, on its way in, in use or on its way
/// out.
constexpr int32_t StateSlots(const StepOrder& order) {
  return order.depth == 0 ? 1 : 4 * order.depth;
}

/// Bytes of homes that each tier may hold at most; what is left for buffers is not in
/// it. Homes that fit nowhere go to the lowest tier that is allowed at all, so that the
/// caller sees how much is missing.
Decisions DecideHomes(const PlanRequest& request, const StepOrder& order,
                      const TierBytes& home_bytes);

/// What rests between steps, without alignment: weights, state, gradients, speculated
/// weights.
TierBytes HomeBytes(const StepTrace& trace, const Decisions& decisions);

/// Slices of `elements` (a multiple of the tile), at most `slice_elements` each, as
/// even as tiles allow.
std::vector<SliceDecision> CutSlices(int64_t elements, int64_t slice_elements,
                                     int64_t tile_elements);

}  // namespace strata
