#include "runtime/plan/least_budget.h"

#include <algorithm>
#include <optional>

#include "runtime/base/status.h"
#include "runtime/plan/candidate_walk.h"

namespace strata {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 50;

// The least of `tier` that a candidate takes which fits the budget in all tiers. With
// `any`, what the first one takes.
absl::StatusOr<std::optional<int64_t>> LeastTaken(const PlanRequest& request,
                                                  Candidates& candidates,
                                                  const TierBytes& budget,
                                                  TierKind tier, bool any) {
  CandidateWalk walk(candidates, budget);
  std::optional<int64_t> least;
  double seconds = 0;
  while (!any || !least) {
    STRATA_ASSIGN_OR_RETURN(const std::vector<Candidate>* found, walk.Next(&seconds));
    if (found == nullptr) break;
    for (const Candidate& candidate : *found) {
      if (!Fits(candidate.need, budget)) continue;
      STRATA_ASSIGN_OR_RETURN(const TierBytes need, WholeNeed(request, candidate));
      if (!Fits(need, budget)) continue;
      least = std::min(least.value_or(kMostBytes), need[tier]);
    }
  }
  return least;
}

// The least that `tier` must have, the others as in `budget`; nothing where no amount
// of it helps.
absl::StatusOr<std::optional<int64_t>> LeastBudget(const PlanRequest& request,
                                                   Candidates& candidates,
                                                   TierBytes budget, TierKind tier) {
  const auto taken_at = [&](int32_t level, bool any) {
    budget[tier] = LadderBytes(level);
    return LeastTaken(request, candidates, budget, tier, any);
  };
  // Steps that double, then bisection.
  const int32_t most = LadderLevel(kMostBytes);
  int32_t bad = LadderLevel(std::max<int64_t>(budget[tier], 0)), step = 1;
  int32_t good = std::min(bad + step, most);
  while (true) {
    STRATA_ASSIGN_OR_RETURN(const std::optional<int64_t> taken, taken_at(good, true));
    if (taken) break;
    if (good == most) return std::nullopt;
    bad = good;
    step *= 2;
    good = std::min(good + step, most);
  }
  while (good - bad > 1) {
    const int32_t middle = bad + (good - bad) / 2;
    STRATA_ASSIGN_OR_RETURN(const std::optional<int64_t> taken, taken_at(middle, true));
    (taken ? good : bad) = middle;
  }
  STRATA_ASSIGN_OR_RETURN(const std::optional<int64_t> least, taken_at(good, false));
  // A candidate of this level may take less than the level below, where it is none.
  return std::max(*least, LadderBytes(bad) + 1);
}

}  // namespace

absl::StatusOr<Mends> FindMends(const PlanRequest& request, Candidates& candidates,
                                const TierBytes& budget) {
  Mends found;
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    STRATA_ASSIGN_OR_RETURN(const std::optional<int64_t> least,
                            LeastBudget(request, candidates, budget, tier));
    if (least) found.mends.push_back({tier, *least});
  }
  const auto growth = [&budget](const Mend& mend) {
    return static_cast<double>(mend.bytes) /
           static_cast<double>(std::max<int64_t>(budget[mend.tier], 1));
  };
  std::stable_sort(found.mends.begin(), found.mends.end(),
                   [&](const Mend& a, const Mend& b) { return growth(a) < growth(b); });
  const TierBytes most{0, kMostBytes, budget.nvme > 0 ? kMostBytes : 0};
  STRATA_ASSIGN_OR_RETURN(const std::optional<int64_t> least,
                          LeastBudget(request, candidates, most, TierKind::kDevice));
  found.least_device_bytes = least.value_or(0);
  return found;
}

}  // namespace strata
