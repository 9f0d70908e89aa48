/// Plans taken apart, so that tests can write them by hand and damage them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// An operation with its own accesses and waits.
struct LooseOp {
  Op op;
  std::vector<Access> accesses;
  std::vector<uint32_t> waits;  // positions in the list
};

struct LoosePlan {
  PlanKey key;
  std::vector<LooseOp> ops;
  uint32_t result_op = 0;

  /// Removes an operation; what waited for it no longer does.
  void Erase(uint32_t op);
  /// Puts a copy of an operation behind it; the copy waits for the first one too.
  void Duplicate(uint32_t op);
  /// Exchanges two neighbours in the list. Waits between the two are dropped.
  void SwapWithNext(uint32_t op);
};

LoosePlan Loosen(const Plan& plan);
Plan Tighten(const LoosePlan& loose);

}  // namespace strata
