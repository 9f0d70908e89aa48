/// What is said when no plan fits the budgets: the numbers, and the cheapest change.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>

#include "runtime/base/types.h"
#include "runtime/plan/planner.h"

namespace strata {

/// Raise the budget of `tier` to `bytes`, of the arena.
struct Advice {
  TierKind tier = TierKind::kDevice;
  int64_t bytes = 0;
};

void Follow(const Advice& advice, Budgets& budgets);

/// ResourceExhausted with a mend. Sizes of the device count what is outside the arena,
/// as users do. `least_device_bytes`: what any plan takes there, whatever else it
/// needs.
absl::Status RefuseBudgets(const PlanRequest& request, int64_t least_device_bytes,
                           const std::optional<Advice>& advice);

}  // namespace strata
