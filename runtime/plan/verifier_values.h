/// Abstract execution: runs a plan in list order on a memory whose bytes are symbols,
/// and proves that every read finds what it names and that the homes end as the border
/// says.
#pragma once

#include <absl/status/status.h>

#include "runtime/plan/plan.h"

namespace strata::verifier {

/// REQUIRES: CheckLayout, CheckStructure and CheckOperands hold.
absl::Status CheckValues(const PlanSet& set, const Plan& plan);

}  // namespace strata::verifier
