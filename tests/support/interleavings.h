/// Decides by brute force whether a plan set can go wrong: executes plans on symbolic
/// memory in random schedules that lanes and waits allow, and compares what the homes
/// hold in the end with what a right plan set leaves there.
///
/// Shares no code with the verifier. An operation takes time: while it is under way its
/// results hold garbage, and it goes wrong if its operands change.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

class Interleavings {
 public:
  /// `right` gives the expected results: its plans, in list order. Outlives this.
  explicit Interleavings(const PlanSet& right) : right_(right) {}

  /// Runs plans[plan] of `set` in `count` schedules. Returns what went wrong in one of
  /// them, or "". REQUIRES: `set` has the layout and the plan keys of the right one.
  std::string RunAlone(const PlanSet& set, int32_t plan, int count,
                       std::mt19937& random) const;
  /// The same for both plans of a link, the second starting when the first has its
  /// result.
  std::string RunLinked(const PlanSet& set, const Link& link, int count,
                        std::mt19937& random) const;

 private:
  std::string Run(const PlanSet& set, const std::vector<int32_t>& sequence,
                  const Link* link, int count, std::mt19937& random) const;

  const PlanSet& right_;
};

}  // namespace strata
