/// Turns decisions into plans with addresses and waits. Pure: equal inputs give equal
/// plans, byte for byte.
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <vector>

#include "runtime/plan/decisions.h"
#include "runtime/plan/plan.h"

namespace strata {

/// Which plans a run needs.
struct PlanSetOptions {
  /// Micro-batch counts of training steps: the full window and the last, partial ones.
  /// None for a model that is only evaluated, all of which is frozen.
  std::vector<int32_t> train_micro_batches;
  bool evaluate = false;  // with StepTrace::micro_batches
};

/// The keys that `options` and `decisions` call for, in a fixed order.
std::vector<PlanKey> PlanKeys(const StepTrace& trace, const Decisions& decisions,
                              const PlanSetOptions& options);

/// The arenas that CompilePlanSet would need, in a fraction of its time: no waits and no
/// links are derived. InvalidArgument as there.
absl::StatusOr<TierBytes> MeasureArenas(const StepTrace& trace,
                                        const Decisions& decisions,
                                        std::span<const PlanKey> keys);

/// Compiles plans for `keys` and links between all that may follow each other.
/// InvalidArgument where decisions contradict each other or the trace.
absl::StatusOr<PlanSet> CompilePlanSet(const StepTrace& trace,
                                       const Decisions& decisions,
                                       std::span<const PlanKey> keys);

}  // namespace strata
