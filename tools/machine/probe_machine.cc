#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <optional>
#include <set>

#include "tools/machine/machine_report.h"

namespace strata {
namespace {

/// What the kernels ask for, from the oldest to the newest.
struct IsaLevel {
  const char* name;
  std::vector<std::string> flags;  // of /proc/cpuinfo, all needed
};

const std::vector<IsaLevel>& IsaLevels() {
  static const auto* const levels = new std::vector<IsaLevel>{
      {"sse4.2", {"sse4_2", "popcnt"}},
      {"avx2", {"avx2", "fma", "f16c", "bmi2"}},
      {"avx512", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
      {"avx512_vnni", {"avx512_vnni"}},
      {"avx512_bf16", {"avx512_bf16"}},
      {"amx_bf16", {"amx_tile", "amx_bf16"}},
  };
  return *levels;
}

std::vector<std::string> FindIsa(const SystemView& system) {
  const std::string line =
      system.Field("/proc/cpuinfo", "flags").value_or(std::string());
  const std::set<std::string> flags = absl::StrSplit(line, ' ', absl::SkipEmpty());
  std::vector<std::string> found;
  for (const IsaLevel& level : IsaLevels()) {
    bool has_all = true;
    for (const std::string& flag : level.flags) has_all &= flags.contains(flag);
    if (has_all) found.push_back(level.name);
  }
  return found;
}

/// Cores' worth of time that a cgroup grants; nothing if it grants all.
std::optional<double> CpuQuota(const SystemView& system) {
  const std::vector<std::string> words =
      absl::StrSplit(system.Line("/sys/fs/cgroup/cpu.max").value_or(""), ' ');
  double quota = 0, period = 0;
  if (words.size() == 2 && absl::SimpleAtod(words[0], &quota) &&
      absl::SimpleAtod(words[1], &period) && period > 0) {
    return quota / period;
  }
  const auto old_quota = system.Number("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto old_period = system.Number("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (old_quota && old_period && *old_quota > 0 && *old_period > 0) {
    return static_cast<double>(*old_quota) / static_cast<double>(*old_period);
  }
  return std::nullopt;
}

void AddLimits(const SystemView& system, const std::vector<std::string>& isa,
               std::optional<double> quota, Section& section) {
  const auto has = [&isa](const char* name) {
    return std::find(isa.begin(), isa.end(), name) != isa.end();
  };
  if (system.architecture == "x86_64" && !has("avx2")) {
    section.limits.push_back(
        {"no AVX2: the optimizer on the CPU runs at a fraction of memory speed",
         "use a machine with AVX2 (a virtual machine may hide it: ask for the host's "
         "CPU "
         "model)"});
  } else if (system.architecture == "x86_64" && !has("avx512")) {
    section.limits.push_back(
        {"no AVX-512: on --device cpu bf16 matmuls are computed in fp32, at about half "
         "the speed",
         "nothing needs doing; on --device cpu fp32 training is as fast"});
  }
  if (quota && *quota < static_cast<double>(system.core_count)) {
    section.limits.push_back(
        {absl::StrFormat("a cgroup grants the time of %.1f of %d cores", *quota,
                         system.core_count),
         "start the container with more: docker run --cpus=N"});
  }
  if (!system.IsKernelAtLeast(5, 14)) {
    section.limits.push_back(
        {absl::StrCat(
             "kernel ", system.kernel,
             " is older than 5.14: host memory is filled page by page at start"),
         "apt-get install a newer kernel"});
  }
  if (system.IsKernelAtLeast(6, 11) && !system.IsKernelAtLeast(6, 14)) {
    section.limits.push_back(
        {absl::StrCat("kernel ", system.kernel,
                      " (6.11 to 6.13) pins at most 2 GB of memory at once for a GPU"),
         "apt-get install a kernel from 6.14 on, or before 6.11"});
  }
}

}  // namespace

Section ProbeMachine(const SystemView& system) {
  Section section{.key = "machine", .title = "Machine"};
  const std::string cpu =
      system.Field("/proc/cpuinfo", "model name").value_or("unknown CPU");
  const std::vector<std::string> isa = FindIsa(system);
  const std::optional<double> quota = CpuQuota(system);
  section.Add("cpu", cpu, "cpu",
              absl::StrCat(cpu, ", ", system.core_count, " cores for this process"));
  section.Add("cores", system.core_count, "", "");
  section.Add("cpu_quota_cores", quota ? nlohmann::ordered_json(*quota) : nullptr, "",
              "");
  section.Add("instruction_sets", isa, "instruction sets",
              isa.empty() ? "none that is used" : absl::StrJoin(isa, " "));
  section.Add("kernel", system.kernel, "kernel",
              absl::StrCat("Linux ", system.kernel, " ", system.architecture));
  section.Add("architecture", system.architecture, "", "");
  section.Add("page_bytes", system.page_bytes, "page size",
              absl::StrCat(system.page_bytes, " bytes"));
  AddLimits(system, isa, quota, section);
  return section;
}

}  // namespace strata
