/// The plans that the planner compares: for each point of the ladder of budgets the
/// best that fits there by estimate. They depend on trace, profile and overrides, never
/// on the budgets of the request, so that what a smaller budget has, a larger one has.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "runtime/plan/budget_ladder.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/residency.h"
#include "runtime/plan/step_estimate.h"

namespace strata {

/// A fully decided step.
struct Candidate {
  StepOrder order;
  Decisions decisions;
  TierBytes need;  // arenas of the steady plan
};

class Candidates {
 public:
  /// `request` outlives this.
  explicit Candidates(const PlanRequest& request);

  /// Estimated seconds of the best that fits at `point`; infinity where nothing does.
  double SecondsAt(const LadderPoint& point);

  /// The lowest point below `point` at which its best order is as good, but for half a
  /// percent: it stands for all points between the two.
  LadderPoint Lean(const LadderPoint& point);

  /// What to try at a point: its best orders, with the homes that fill it. The plans
  /// may still not fit, where the estimate of their buffers was too low.
  absl::StatusOr<const std::vector<Candidate>*> At(const LadderPoint& point);

 private:
  struct Choice {
    double seconds = 0;
    StepOrder order;
    TierBytes homes;
  };
  struct Best {
    Choice state_first, weights_first;
  };

  const Best& BestAt(const LadderPoint& point);
  Choice BestOfOrder(StepOrder order, const LadderPoint& point, const Choice& rival);
  Choice Try(const StepOrder& order, const LadderPoint& point);
  TierBytes BufferBytes(const StepOrder& order, bool uses_nvme);
  TierBytes MeasureBuffers(const StepOrder& order, bool uses_nvme) const;
  absl::StatusOr<std::optional<Candidate>> Fill(const StepOrder& order, TierBytes homes,
                                                const TierBytes& given);
  int64_t SliceElements(int32_t depth) const;
  std::vector<StepOrder> Orders() const;

  const PlanRequest& request_;
  const StepTrace& trace_;
  StepEstimate estimate_;
  std::vector<StepOrder> orders_;
  std::map<LadderPoint, Best> best_;
  std::map<LadderPoint, std::vector<Candidate>> found_;
  std::unordered_map<int64_t, TierBytes> buffers_;  // by what they depend on
};

/// The plan by which a candidate is priced: the steady step, or the evaluation where
/// nothing is trained.
PlanKey SteadyKey(const PlanRequest& request, const Decisions& decisions);

}  // namespace strata
