#include "runtime/plan/planner.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/candidate_walk.h"
#include "runtime/plan/least_budget.h"
#include "runtime/plan/refusal.h"

namespace strata {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How many points are looked at, and how much faster than its estimate a simulated
/// step may be. Estimates of large steps are right within a few percent, and their
/// plans take long to compile.
struct Effort {
  int points;
  double estimate_error;
};
Effort EffortFor(const StepTrace& trace) {
  const int64_t size = int64_t{trace.layer_count()} * (8 + trace.micro_batches);
  if (size < 200) return {30, 0.1};
  if (size < 400) return {12, 0.01};
  return {6, -0.01};
}

Forecast Price(const PlanSet& set, const MachineProfile& profile) {
  int32_t steady = 0;
  for (size_t i = 0; i < set.plans.size(); ++i) {
    const PlanKey& key = set.plans[i].key;
    const PlanKey& best = set.plans[static_cast<size_t>(steady)].key;
    if (key.kind == PlanKind::kTrain && key.speculate &&
        key.micro_batches == set.trace.micro_batches && key.start == Border::kPending &&
        best.start != Border::kPending) {
      steady = static_cast<int32_t>(i);
    }
  }
  const std::vector<int32_t> sequence(3, steady);
  return Simulate(set, sequence, profile);
}

/// The candidate that fits and is the fastest, by simulation; nothing if none fits.
absl::StatusOr<std::optional<Decisions>> Fastest(const PlanRequest& request,
                                                 Candidates& candidates,
                                                 const TierBytes& budget) {
  const Effort effort = EffortFor(request.trace);
  CandidateWalk walk(candidates, budget);
  std::optional<Decisions> fastest;
  double fastest_seconds = kInfinity, estimate = 0;
  for (int points = 0; points < effort.points || !fastest; ++points) {
    STRATA_ASSIGN_OR_RETURN(const std::vector<Candidate>* found, walk.Next(&estimate));
    if (found == nullptr || estimate * (1 - effort.estimate_error) >= fastest_seconds) {
      break;
    }
    for (const Candidate& candidate : *found) {
      if (!Fits(candidate.need, budget)) continue;
      const std::vector<PlanKey> keys{SteadyKey(request, candidate.decisions)};
      STRATA_ASSIGN_OR_RETURN(const PlanSet set,
                              CompilePlanSet(request.trace, candidate.decisions, keys));
      const double seconds = Price(set, request.profile).seconds;
      if (seconds >= fastest_seconds) continue;
      STRATA_ASSIGN_OR_RETURN(const TierBytes need, WholeNeed(request, candidate));
      if (!Fits(need, budget)) continue;
      fastest_seconds = seconds;
      fastest = candidate.decisions;
    }
  }
  return fastest;
}

absl::StatusOr<PlannedStep> Take(const PlanRequest& request,
                                 const Decisions& decisions) {
  PlannedStep planned;
  planned.decisions = decisions;
  STRATA_ASSIGN_OR_RETURN(
      planned.set, CompilePlanSet(request.trace, decisions,
                                  PlanKeys(request.trace, decisions, request.plans)));
  planned.forecast = Price(planned.set, request.profile);
  const int32_t steady = planned.set.Find(SteadyKey(request, decisions));
  STRATA_CHECK(steady >= 0);
  planned.floor_seconds = FloorSeconds(
      planned.set, planned.set.plans[static_cast<size_t>(steady)], request.profile);
  return planned;
}

}  // namespace

absl::StatusOr<PlannedStep> PlanStep(const PlanRequest& request) {
  const TierBytes budget{request.budgets.device_bytes, request.budgets.host_bytes,
                         request.budgets.nvme_bytes};
  if (request.overrides.decisions) {
    STRATA_ASSIGN_OR_RETURN(PlannedStep planned,
                            Take(request, *request.overrides.decisions));
    if (Fits(planned.set.arena_bytes, budget)) return planned;
    return RefuseDecisions(request, planned.set.arena_bytes);
  }
  Candidates candidates(request);
  STRATA_ASSIGN_OR_RETURN(const std::optional<Decisions> fastest,
                          Fastest(request, candidates, budget));
  if (fastest) return Take(request, *fastest);
  STRATA_ASSIGN_OR_RETURN(const Mends mends, FindMends(request, candidates, budget));
  return RefuseBudgets(request, mends);
}

}  // namespace strata
