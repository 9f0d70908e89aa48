/// What a plan comes to: bytes by tier and kind, peaks, choices, forecast.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/plan/planner.h"

namespace strata {

struct KindBytes {
  std::string kind;  // "weights"
  TierBytes bytes;
};

struct PlanView {
  /// At rest: weights, optimizer, gradients, speculated weights. In the step:
  /// activations at segment borders (all that are alive at once), and what is left of
  /// the arenas, buffers. They add up to `arenas`.
  std::vector<KindBytes> kinds;
  TierBytes arenas;
  int64_t slices = 0, lagged_slices = 0, cpu_slices = 0;
};

PlanView ViewOf(const PlannedStep& planned);

}  // namespace strata
