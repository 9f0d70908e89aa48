/// What the homes of a layout hold when a plan starts and when it ends.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata::verifier {

/// A part of a home with one value.
struct HomeContent {
  Extent extent;
  Value value;
  int64_t value_offset = 0;
};

/// All that a plan may count on when it starts. Extents on nvme are as they are
/// transferred.
std::vector<HomeContent> StartOf(const PlanSet& set, const PlanKey& key);

/// All that must be there when it ends: the state, and its results.
std::vector<HomeContent> EndOf(const PlanSet& set, const PlanKey& key);

/// What `second` counts on is what `first` leaves, or what is left of it when its step
/// is skipped: what is pending then is void, and the state before it is settled.
absl::Status CheckHandOver(const PlanSet& set, const Plan& first, const Plan& second);

/// What no plan ever writes: frozen weights, constants, inputs.
std::vector<HomeContent> Untouchable(const PlanSet& set);

}  // namespace strata::verifier
