/// The verifier's first look: is the layout one that the trace can have, and does every
/// number in the plans stay within what it indexes.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/verifier.h"

namespace strata::verifier {

struct NamedExtent {
  std::string name;  // "block.3/state[2]"
  Extent extent;
};

/// Every home of the set that is not empty.
std::vector<NamedExtent> Homes(const StepTrace& trace, const Layout& layout);

/// Arenas within budgets; each layer's slices cover its trainable part in whole tiles
/// and have homes of the right size and tier, disjoint and inside the arenas.
absl::Status CheckLayout(const PlanSet& set, const Budgets& budgets);

/// Keys that the trace can have; indices in range; waits that point backwards; accesses
/// inside the arenas, aligned as the store needs them; no two accesses of one operation
/// overlap but those that change an operand in place.
absl::Status CheckStructure(const PlanSet& set, const Plan& plan);

/// Exactly one link for every two plans that may follow each other, in order and in
/// range.
absl::Status CheckLinks(const PlanSet& set);

}  // namespace strata::verifier
