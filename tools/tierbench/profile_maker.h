/// From measurements to the machine profile that the planner reads.
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "runtime/plan/machine_profile.h"
#include "tools/tierbench/bench_report.h"

namespace strata {

/// What the phases do not say themselves.
struct ProfileFacts {
  std::string machine;  // MachineName()
  std::string device;   // Device::name() of what was measured
  double op_overhead_seconds = 0;
  /// What an update and both copies at once took from host memory; 0: not measured.
  double busy_host_memory = 0;
  int64_t device_overhead_bytes = 0;
  int64_t chunk_bytes = 0, window_bytes = 0;  // 0: not tuned
};

/// FailedPrecondition, naming it, if a phase is missing that a profile needs.
absl::StatusOr<MachineProfile> MakeProfile(const BenchReport& report,
                                           const ProfileFacts& facts);

/// The same rates as the `plan` section of the JSON, in GB/s.
nlohmann::ordered_json PlanJson(const MachineProfile& profile);

/// Writes it where the planner looks, creating the directory. The path.
absl::StatusOr<std::string> SaveProfile(const MachineProfile& profile);

}  // namespace strata
