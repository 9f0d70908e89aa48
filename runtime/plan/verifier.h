/// Proves a set of plans safe for every interleaving that its waits allow. It reads the
/// trace and the plans, trusts nothing else, and shares no code with the planner.
#pragma once

#include <absl/status/status.h>

#include "runtime/plan/plan.h"

namespace strata {

struct Budgets {
  int64_t device_bytes = 0;
  int64_t host_bytes = 0;
  int64_t nvme_bytes = 0;
};

/// OK, or Internal with plan, operation and reason. Checked:
/// - every access lies in its arena, arenas within budgets, homes disjoint;
/// - in list order: every read finds exactly the value that it names; each operation has
///   the operands that its code needs, with the right values (weights of epoch 0 in
///   forward and backward, micro-batches accumulated in order, updates applied once, in
///   epoch order, with the right gradient); every layer and micro-batch is computed;
/// - what nvme is asked to read back is what was written together, in whole blocks;
/// - at the end homes hold what the border says, and nothing dirty is dropped; results
///   are in host memory when result_op is complete; what may follow starts from there;
/// - races: every two operations of a plan, or of two linked plans, that touch the same
///   bytes, one of them writing, are ordered by lanes and waits (happens-before, not
///   list order); waits point backwards, so that nothing can deadlock.
absl::Status VerifyPlanSet(const PlanSet& set, const Budgets& budgets);

}  // namespace strata
