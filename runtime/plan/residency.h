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
  double lagged_share = 0;
  double cpu_share = 0;
  friend auto operator<=>(const StepOrder&, const StepOrder&) = default;
};

/// Bytes of homes that each tier may hold at most; what is left for buffers is not in
/// it. Homes that fit nowhere go to the lowest tier that is allowed at all, so that the
/// caller sees how much is missing.
Decisions DecideHomes(const PlanRequest& request, const StepOrder& order,
                      const TierBytes& home_bytes);

/// Slices of `elements` (a multiple of the tile), at most `slice_elements` each, as
/// even as tiles allow.
std::vector<SliceDecision> CutSlices(int64_t elements, int64_t slice_elements,
                                     int64_t tile_elements);

}  // namespace strata
