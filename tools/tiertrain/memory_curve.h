/// How much of an arena a plan has in use while a step goes on. The arena itself has
/// one size for the whole run; what lies in it comes and goes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/plan/simulator.h"

namespace strata {

/// The most bytes of `tier` in use within each of `parts` equal parts of a step of
/// `seconds`: its first `homes_bytes`, which rest there all the time, and every byte
/// behind them from the beginning of the operation that writes it to the end of the
/// last one that reads it. `spans` has the time of each of the plan's operations.
std::vector<int64_t> BytesInUse(const Plan& plan, TierKind tier, int64_t homes_bytes,
                                std::span<const OpSpan> spans, double seconds,
                                int parts);

}  // namespace strata
