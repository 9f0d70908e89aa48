#include "tools/tierbench/profile_maker.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>

#include "runtime/base/status.h"
#include "runtime/plan/machine_profile_json.h"
#include "tools/cli/program.h"
#include "tools/machine/find_profile.h"

namespace strata {
namespace {

absl::StatusOr<double> RateOf(const BenchReport& report, absl::string_view phase) {
  const Phase* const found = report.Find(phase);
  if (found != nullptr && found->rate.median > 0) return found->rate.median;
  return absl::FailedPreconditionError(
      absl::StrCat("a profile needs the phase ", phase, ", which was not measured"));
}

/// Sustained FLOP per second over one of each product of a layer and attention both
/// ways: time adds up, not rates. A forward product stands for its input's gradient,
/// too, which has the same size.
absl::StatusOr<double> ComputeRate(const BenchReport& report) {
  double flop = 0, seconds = 0;
  for (const Phase& phase : report.phases) {
    const bool is_product = absl::StartsWith(phase.name, "matmul_");
    if (!is_product && !absl::StartsWith(phase.name, "attention")) continue;
    const double call_seconds = phase.params["seconds_per_call"].get<double>();
    const double times =
        is_product && phase.name != "matmul_down_weight_gradient" ? 3 : 1;
    flop += times * phase.flop_per_second * call_seconds;
    seconds += times * call_seconds;
  }
  if (seconds > 0) return flop / seconds;
  return absl::FailedPreconditionError("a profile needs matmul and attention rates");
}

}  // namespace

absl::StatusOr<MachineProfile> MakeProfile(const BenchReport& report,
                                           const ProfileFacts& facts) {
  MachineProfile p;
  p.name = absl::StrCat(facts.device, " on ", facts.machine);
  p.machine = facts.machine;
  p.device = facts.device;
  STRATA_ASSIGN_OR_RETURN(p.compute_flops, ComputeRate(report));
  STRATA_ASSIGN_OR_RETURN(p.host_to_device, RateOf(report, "host_to_device"));
  STRATA_ASSIGN_OR_RETURN(p.device_to_host, RateOf(report, "device_to_host"));
  STRATA_ASSIGN_OR_RETURN(p.both_directions, RateOf(report, "both"));
  STRATA_ASSIGN_OR_RETURN(p.cpu_update, RateOf(report, "cpu_update"));
  STRATA_ASSIGN_OR_RETURN(const double memory, RateOf(report, "host_memory"));
  STRATA_ASSIGN_OR_RETURN(p.cpu_advance, RateOf(report, "cpu_advance"));
  p.host_memory = std::max({memory, p.cpu_update, facts.busy_host_memory});
  p.device_memory = p.cpu_update;
  if (report.Find("device_update") != nullptr) {
    STRATA_ASSIGN_OR_RETURN(p.device_memory, RateOf(report, "device_update"));
  }
  STRATA_ASSIGN_OR_RETURN(p.nvme_read, RateOf(report, "swap_read"));
  STRATA_ASSIGN_OR_RETURN(p.nvme_write, RateOf(report, "swap_write"));
  STRATA_ASSIGN_OR_RETURN(p.nvme_both, RateOf(report, "swap"));
  p.nvme_chunk_bytes = facts.chunk_bytes;
  p.nvme_window_bytes = facts.window_bytes;
  p.op_overhead_seconds = facts.op_overhead_seconds;
  p.device_overhead_bytes = facts.device_overhead_bytes;
  return p;
}

nlohmann::ordered_json PlanJson(const MachineProfile& p) {
  return {{"read_gbps", p.nvme_read / 1e9},
          {"write_gbps", p.nvme_write / 1e9},
          {"mixed_gbps", p.nvme_both / 1e9},
          {"h2d_gbps", p.host_to_device / 1e9},
          {"d2h_gbps", p.device_to_host / 1e9},
          {"bidirectional_gbps", p.both_directions / 1e9},
          {"host_memory_gbps", p.host_memory / 1e9},
          {"cpu_advance_gbps", p.cpu_advance / 1e9},
          {"cpu_update_gbps", p.cpu_update / 1e9},
          {"device_memory_gbps", p.device_memory / 1e9},
          {"compute_tflops", p.compute_flops / 1e12}};
}

absl::StatusOr<std::string> SaveProfile(const MachineProfile& profile) {
  const std::string path = StoredProfilePath();
  if (path.empty()) {
    return WithMend(
        absl::FailedPreconditionError("there is no place for the machine profile: "
                                      "neither STRATA_PROFILE nor HOME is set"),
        "STRATA_PROFILE=FILE tierbench --save_profile");
  }
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  if (error) return IoError(error.value(), absl::StrCat("create ", parent.string()));
  STRATA_RETURN_IF_ERROR(cli::WriteOutput(path, MachineProfileJson(profile)));
  return path;
}

}  // namespace strata
