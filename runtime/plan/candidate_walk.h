/// Goes through the candidates that may fit a budget, the fastest by estimate first.
#pragma once

#include <absl/status/statusor.h>

#include <set>
#include <utility>

#include "runtime/plan/candidates.h"

namespace strata {

constexpr bool Fits(const TierBytes& need, const TierBytes& budget) {
  return need.device <= budget.device && need.host <= budget.host &&
         need.nvme <= budget.nvme;
}

/// Bytes that all plans of the candidate's set take.
absl::StatusOr<TierBytes> WholeNeed(const PlanRequest& request,
                                    const Candidate& candidate);

/// At a point of the ladder the candidates are those of its lean point, and so they are
/// at every point between the two. What is left are the points below the lean one in
/// some tier: three boxes, each with a point at its top.
class CandidateWalk {
 public:
  CandidateWalk(Candidates& candidates, const TierBytes& budget);

  /// What to try next, for a point that was not seen before; null once there are none,
  /// or after so many that another would not be different. `*seconds` becomes what
  /// their point was estimated at: no less than any before.
  absl::StatusOr<const std::vector<Candidate>*> Next(double* seconds);

 private:
  void Push(const LadderPoint& top);

  static constexpr int kPointsMost = 32;

  Candidates& candidates_;
  int points_ = 0;
  std::set<std::pair<double, LadderPoint>> open_;
  std::set<LadderPoint> tops_, lean_;  // seen
};

}  // namespace strata
