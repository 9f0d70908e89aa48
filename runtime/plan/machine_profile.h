/// Rates of one machine, as tierbench measures them: what the simulator and the planner
/// know of hardware. Bytes and FLOP per second.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"

namespace strata {

struct MachineProfile {
  std::string name;
  /// Where it was measured ("AMD EPYC 9R14, 2 cores") and what computed there ("cpu",
  /// "cuda:0 NVIDIA H200"); empty: not measured.
  std::string machine, device;
  double compute_flops = 650e12;   // sustained, in the run's dtype
  double device_memory = 4.0e12;   // optimizer and reductions on the device
  double host_to_device = 55e9;    // alone
  double device_to_host = 55e9;    // alone
  double both_directions = 102e9;  // sum, when both copy at once
  double host_memory = 150e9;      // all host traffic together: copies, disk, cpu lane
  double cpu_update = 142e9;       // the cpu lane alone, bytes read and written
  double cpu_advance = 142e9;      // the same of two steps in one pass (kAdvance)
  double nvme_read = 2.6e9;
  double nvme_write = 3.2e9;
  double nvme_both = 2.9e9;  // sum, when it reads and writes at once
  /// What the drive is fastest with; 0: not measured, the store's defaults.
  int64_t nvme_chunk_bytes = 0, nvme_window_bytes = 0;
  double op_overhead_seconds = 5e-6;  // launch and completion of one operation
  /// What the process holds on the device beside the arena: context, modules,
  /// libraries. The budget that a user gives counts it, the planner's does not.
  int64_t device_overhead_bytes = 0;
};

/// The shares of their own rates that reads and writes of the drive reach together: 1
/// if they take turns (half duplex), 2 if neither minds the other.
double DriveShares(const MachineProfile& profile);

/// Work of one operation in its lane's own unit, from which its duration follows.
struct OpCost {
  double work = 0;              // FLOP in the compute lane, else bytes
  double overhead_seconds = 0;  // paid before the work
  double host_bytes = 0;        // traffic in host memory that this operation makes
};
OpCost CostOf(const PlanSet& set, const Plan& plan, const Op& op,
              const MachineProfile& profile);

/// Rate of each lane (work per second) while exactly the lanes with `active` set work:
/// max-min fair shares of what they use together (both copy directions, host memory, a
/// half-duplex drive). 0 for lanes that are not active.
std::array<double, kLaneCount> LaneRates(const MachineProfile& profile,
                                         const std::array<bool, kLaneCount>& active);

}  // namespace strata
