/// Runs a plan in virtual time on a machine profile. No clock, no thread, no device.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/machine_profile.h"
#include "runtime/plan/plan.h"

namespace strata {

struct LaneForecast {
  double busy_seconds = 0;
  double stall_seconds = 0;  // time that the compute lane waited for this lane
  int64_t bytes = 0;         // moved (copy and nvme lanes)
};

struct OpSpan {
  double begin_seconds = 0, end_seconds = 0;
};

struct Forecast {
  double seconds = 0;  // of the last plan: from the end of the one before to its own end
  std::array<LaneForecast, kLaneCount> lanes;
  std::vector<OpSpan> spans;  // of the last plan's operations
};

/// Executes the plans `sequence` (indices into set.plans) one after the other, each linked
/// to the one before, and reports the last. A plan ends when its results are in host
/// memory (the copies of tile sums, losses and flags; the last operation of a flush): then
/// the next one starts, while what is left of it is still under way.
/// REQUIRES: every two neighbours are linked in `set`.
Forecast Simulate(const PlanSet& set, std::span<const int32_t> sequence,
                  const MachineProfile& profile);

/// The floor of design section 5 for this plan's bytes and FLOP: the busiest resource.
double FloorSeconds(const PlanSet& set, const Plan& plan, const MachineProfile& profile);

}  // namespace strata
