/// Chooses the plan: which home each shard has, in what order the step goes, how far
/// the lanes run ahead. Pure: no device, no thread, no clock.
#pragma once

#include <absl/status/statusor.h>

#include <optional>

#include "runtime/plan/compile.h"
#include "runtime/plan/machine_profile.h"
#include "runtime/plan/simulator.h"
#include "runtime/plan/verifier.h"

namespace strata {

/// What the user pinned; everything else is the planner's choice.
struct PlacementPins {
  std::optional<TierKind> weights, optimizer, gradients, activations;
};

/// For tests and experiments: settings that the planner would otherwise choose.
struct PlannerOverrides {
  std::optional<int32_t> segment_layers, groups;
  std::optional<double> lagged_share;  // of the slices that may lag, 0 to 1
  std::optional<double> cpu_share;     // of the slices that may be updated on the CPU
  std::optional<int32_t> depth;        // 0 = no prefetch, 1, 2
  std::optional<int64_t> slice_elements;
  std::optional<Decisions> decisions;  // all of it: nothing is searched
};

struct PlanRequest {
  StepTrace trace;
  Budgets budgets;  // of the arenas
  MachineProfile profile;
  PlacementPins pins;
  PlannerOverrides overrides;
  PlanSetOptions plans;
};

struct PlannedStep {
  Decisions decisions;
  PlanSet set;
  Forecast forecast;  // of the steady, unclipped step
  double floor_seconds = 0;
};

/// The fastest plan set, by simulation, that fits the budgets. ResourceExhausted where
/// none does: what the smallest plan needs, what is there, and as its mend the cheapest
/// change that would make it fit.
absl::StatusOr<PlannedStep> PlanStep(const PlanRequest& request);

}  // namespace strata
