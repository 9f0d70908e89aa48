/// Random but valid traces and decisions: what the properties of plans are tested on.
#pragma once

#include <cstdint>
#include <random>

#include "runtime/plan/compile.h"
#include "runtime/plan/decisions.h"
#include "runtime/plan/step_trace.h"

namespace strata {

/// 3 to `layers_max` layers; some tied, some frozen, of unequal sizes.
StepTrace RandomTrace(std::mt19937& random, int32_t layers_max);

/// Any decisions that MakeHomes accepts for `trace`.
Decisions RandomDecisions(std::mt19937& random, const StepTrace& trace);

}  // namespace strata
