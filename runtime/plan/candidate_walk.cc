#include "runtime/plan/candidate_walk.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr TierKind kTiers[] = {TierKind::kDevice, TierKind::kHost, TierKind::kNvme};

}  // namespace

absl::StatusOr<TierBytes> WholeNeed(const PlanRequest& request,
                                    const Candidate& candidate) {
  return MeasureArenas(request.trace, candidate.decisions,
                       PlanKeys(request.trace, candidate.decisions, request.plans));
}

CandidateWalk::CandidateWalk(Candidates& candidates, const TierBytes& budget)
    : candidates_(candidates) {
  if (budget.device < 0 || budget.host < 0 || budget.nvme < 0) return;
  // One step above the budgets: a candidate there may take less than it might.
  Push({LadderLevelAbove(budget.device), LadderLevelAbove(budget.host),
        LadderLevelAbove(budget.nvme)});
}

void CandidateWalk::Push(const LadderPoint& top) {
  if (top.device < 0 || top.host < 0 || top.nvme < 0) return;
  if (!tops_.insert(top).second) return;
  const double seconds = candidates_.SecondsAt(top);
  if (std::isfinite(seconds)) open_.insert({seconds, top});
}

absl::StatusOr<const std::vector<Candidate>*> CandidateWalk::Next(double* seconds) {
  while (!open_.empty() && points_ < kPointsMost) {
    const LadderPoint top = open_.begin()->second;
    *seconds = open_.begin()->first;
    open_.erase(open_.begin());
    LadderPoint lean = candidates_.Lean(top);
    for (const TierKind tier : kTiers) {
      LadderPoint lower = top;
      lower[tier] = lean[tier] - 1;
      Push(lower);
    }
    if (!lean_.insert(lean).second) continue;
    ++points_;
    // Buffers may take more than was estimated; then a little above, or at the top.
    for (int32_t step = 1;; step *= 2) {
      STRATA_ASSIGN_OR_RETURN(const std::vector<Candidate>* found,
                              candidates_.At(lean));
      if (!found->empty() || lean == top) return found;
      for (const TierKind tier : kTiers) {
        lean[tier] = std::min(lean[tier] + step, LadderPoint(top)[tier]);
      }
    }
  }
  return nullptr;
}

}  // namespace strata
