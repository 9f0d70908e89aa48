#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "runtime/base/available_memory.h"
#include "runtime/base/size.h"
#include "tools/machine/machine_report.h"

namespace strata {
namespace {

constexpr const char* kHugePages = "/sys/kernel/mm/transparent_hugepage/";

/// "always [madvise] never" -> "madvise".
std::string Selected(const SystemView& system, const std::string& path) {
  const std::string line = system.Line(path).value_or("");
  const size_t begin = line.find('['), end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return line.substr(begin + 1, end - begin - 1);
}

void AddMemory(const SystemView& system, Section& section) {
  const absl::StatusOr<AvailableMemory> memory = FindAvailableMemory(system.root);
  if (!memory.ok()) {
    section.Add("available_bytes", nullptr, "available",
                std::string(memory.status().message()));
    return;
  }
  section.Add("total_bytes", memory->total_bytes, "machine has",
              FormatSize(memory->total_bytes));
  section.Add("available_bytes", memory->available_bytes, "available",
              FormatSize(memory->available_bytes));
  const bool is_limited = !memory->limiting_cgroup.empty();
  section.Add("limiting_cgroup",
              is_limited ? nlohmann::ordered_json(memory->limiting_cgroup) : nullptr,
              "limited by",
              is_limited ? absl::StrCat("cgroup ", memory->limiting_cgroup, ", ",
                                        FormatSize(memory->cgroup_limit_bytes))
                         : "the machine itself");
  if (is_limited) {
    section.limits.push_back(
        {absl::StrCat("the container may use ", FormatSize(memory->cgroup_limit_bytes),
                      " of the machine's ", FormatSize(memory->total_bytes)),
         "start it with more: docker run --memory=SIZE, or raise memory.max of "
         "cgroup " +
             memory->limiting_cgroup});
  }
}

void AddMemlock(const SystemView& system, Section& section) {
  const bool is_free = system.MayLockAnyMemory() || !system.memlock_bytes;
  section.Add(
      "memlock_bytes",
      system.memlock_bytes ? nlohmann::ordered_json(*system.memlock_bytes) : nullptr,
      "memlock",
      absl::StrCat(
          system.memlock_bytes ? FormatSize(*system.memlock_bytes) : "unlimited",
          system.MayLockAnyMemory() && system.memlock_bytes
              ? ", not applied to this process (CAP_IPC_LOCK)"
              : ""));
  section.Add("may_lock_any_memory", is_free, "", "");
  if (!is_free) {
    section.limits.push_back(
        {absl::StrCat("memlock is ", FormatSize(*system.memlock_bytes),
                      ": larger buffers are not registered with io_uring, which costs "
                      "CPU time for each transfer"),
         "ulimit -l unlimited (for good: '* - memlock unlimited' in "
         "/etc/security/limits.conf; docker run --ulimit memlock=-1)"});
  }
}

void AddHugePages(const SystemView& system, Section& section) {
  const std::string enabled = Selected(system, absl::StrCat(kHugePages, "enabled"));
  const std::string defrag = Selected(system, absl::StrCat(kHugePages, "defrag"));
  const std::string shmem = Selected(system, absl::StrCat(kHugePages, "shmem_enabled"));
  section.Add("huge_pages", enabled, "huge pages",
              enabled.empty() ? "the kernel has none"
                              : absl::StrCat(enabled, ", defrag ", defrag,
                                             ", shared memory ", shmem));
  section.Add("huge_pages_defrag", defrag, "", "");
  section.Add("huge_pages_shmem", shmem, "", "");
  if (enabled != "always" && enabled != "madvise") {
    section.limits.push_back(
        {"transparent huge pages are off: reads from disk and the CPU optimizer are "
         "slower, and starting takes longer",
         absl::StrCat("echo madvise > ", kHugePages, "enabled (as root)")});
  }
}

void AddSharedMemory(const SystemView& system, Section& section) {
  section.Add("shm_bytes", system.shm_bytes, "/dev/shm", FormatSize(system.shm_bytes));
  constexpr int64_t kDockerDefault = 64 << 20;
  if (system.shm_bytes <= kDockerDefault) {
    section.limits.push_back(
        {absl::StrCat("/dev/shm has ", FormatSize(system.shm_bytes),
                      ": several processes cannot share a host tier"),
         "mount -o remount,size=50% /dev/shm (as root), or docker run "
         "--shm-size=SIZE"});
  }
}

}  // namespace

Section ProbeHost(const SystemView& system) {
  Section section{.key = "host", .title = "Host memory"};
  AddMemory(system, section);
  AddMemlock(system, section);
  AddHugePages(system, section);
  AddSharedMemory(system, section);
  return section;
}

}  // namespace strata
