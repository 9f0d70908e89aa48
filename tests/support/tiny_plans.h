/// A plan set written by hand: two layers of one slice each, one micro-batch. It is
/// right, and small enough to see why.
///
///   body: weights on the device; state on nvme, gradient in host memory; updated on
///   the
///         device
///   head: weights (one tile of two is frozen), state and gradient in host memory;
///   updated
///         on the cpu
///
/// Both slices are deferred. Every operation waits for the one before it, and the first
/// of a plan for the last of the plan before.
#pragma once

#include <cstdint>

#include "runtime/plan/plan.h"
#include "runtime/plan/verifier.h"

namespace strata {

/// Positions in PlanSet::plans.
enum TinyPlan : int32_t { kTinyFirst, kTinySteady, kTinyFlush, kTinyEvaluate };

PlanSet TinyPlanSet();

/// Budgets that the set's arenas fill to the last byte.
Budgets BudgetsOf(const PlanSet& set);

/// Position of the first operation with this code and layer (and, if it moves
/// something, this role). Checks that there is one.
uint32_t FindOp(const Plan& plan, OpCode code, int32_t layer,
                Role role = Role::kScratch);

}  // namespace strata
