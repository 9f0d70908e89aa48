/// What is said when no plan fits the budgets: the numbers, and the cheapest change.
#pragma once

#include <absl/status/status.h>

#include "runtime/plan/least_budget.h"
#include "runtime/plan/planner.h"

namespace strata {

/// ResourceExhausted with a mend. Sizes of the device count what is outside the arena,
/// as users do.
absl::Status RefuseBudgets(const PlanRequest& request, const Mends& mends);

/// The same where the decisions were given, and what they need is known.
absl::Status RefuseDecisions(const PlanRequest& request, const TierBytes& need);

}  // namespace strata
