/// Gives every home its place: what rests between steps, in each tier.
#pragma once

#include <absl/status/statusor.h>

#include "runtime/plan/decisions.h"
#include "runtime/plan/plan.h"

namespace strata {

/// Homes in canonical order from offset 0 of each tier; `*end` receives where they end.
/// InvalidArgument where the decisions contradict each other or the trace.
absl::StatusOr<Layout> MakeHomes(const StepTrace& trace, const Decisions& decisions,
                                 TierBytes* end);

}  // namespace strata
