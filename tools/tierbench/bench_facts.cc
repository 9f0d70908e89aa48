#include "tools/tierbench/bench_facts.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "runtime/base/available_memory.h"
#include "runtime/base/size.h"
#include "tools/machine/find_profile.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

const char* FilesystemName(int64_t magic) {
  switch (magic) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlay";
    case 0x65735546:
      return "fuse";
    case 0x6969:
      return "nfs";
    case 0x2FC12FC1:
      return "zfs";
    case 0xF2F52010:
      return "f2fs";
    default:
      return "unknown";
  }
}

std::string FilesystemOf(const std::string& path) {
  struct statfs info {};
  return statfs(path.c_str(), &info) == 0 ? FilesystemName(info.f_type) : "unknown";
}

std::string QueueOf(const SystemView& system, const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  const std::string device =
      absl::StrCat("/sys/dev/block/", major(info.st_dev), ":", minor(info.st_dev));
  for (const char* up : {"", "/.."}) {  // a partition has its drive above it
    if (system.Exists(absl::StrCat(device, up, "/queue")))
      return device + up + "/queue";
  }
  return "";
}

Json QueueJson(const SystemView& system, const std::string& queue) {
  Json json = Json::object();
  if (queue.empty()) return json;
  for (const char* name : {"scheduler", "write_cache"}) {
    json[name] = OrNull(system.Line(absl::StrCat(queue, "/", name)));
  }
  for (const char* name :
       {"rotational", "nr_requests", "max_segments", "max_sectors_kb",
        "logical_block_size", "physical_block_size", "io_poll"}) {
    json[name] = OrNull(system.Number(absl::StrCat(queue, "/", name)));
  }
  return json;
}

void Warn(BenchReport& report, std::string name, std::string detail) {
  report.checks.push_back({std::move(name), Check::Status::kWarn, std::move(detail)});
}

void Pass(BenchReport& report, std::string name, std::string detail) {
  report.checks.push_back({std::move(name), Check::Status::kPass, std::move(detail)});
}

}  // namespace

void AddHostFacts(const SystemView& system, BenchReport& report) {
  Json& host = report.host;
  host["machine"] = MachineName(system);
  host["kernel"] = system.kernel;
  host["cpus"] = system.core_count;
  if (const auto memory = FindAvailableMemory(""); memory.ok()) {
    host["mem_bytes"] = memory->total_bytes;
    host["available_bytes"] = memory->available_bytes;
  }
  host["thp"] = OrNull(system.Line("/sys/kernel/mm/transparent_hugepage/enabled"));
  host["memlock"] = OrNull(system.memlock_bytes);
  host["shm_bytes"] = system.shm_bytes;
  host["io_uring_disabled"] =
      OrNull(system.Number("/proc/sys/kernel/io_uring_disabled"));
  host["load"] = OrNull(system.Line("/proc/loadavg"));
}

void AddDiskFacts(const SystemView& system, const DiskBench& bench,
                  BenchReport& report) {
  for (const std::unique_ptr<DriveFile>& drive : bench.drives()) {
    const std::string filesystem = FilesystemOf(drive->path());
    const std::string queue = QueueOf(system, drive->path());
    report.targets.push_back({{"dir", drive->directory()},
                              {"fs", filesystem},
                              {"direct", drive->is_direct()},
                              {"data_bytes", drive->data_bytes()},
                              {"queue", QueueJson(system, queue)}});
    if (filesystem == "tmpfs") {
      Warn(report, "filesystem",
           absl::StrCat(drive->directory(),
                        " is a tmpfs: these are rates of memory, not of a drive"));
    } else if (filesystem == "nfs" || filesystem == "fuse") {
      Warn(report, "filesystem",
           absl::StrCat(drive->directory(), " is on ", filesystem,
                        ": these are not the rates of a local drive"));
    } else {
      Pass(report, "filesystem", absl::StrCat(drive->directory(), ": ", filesystem));
    }
  }
  report.engine = {{"requested", Name(bench.settings().backend)},
                   {"used", Name(bench.backend())},
                   {"why", bench.why_backend()}};
}

void AddDiskChecks(const DiskBench& bench, BenchReport& report) {
  for (const std::unique_ptr<DriveFile>& drive : bench.drives()) {
    const double cached = drive->CachedShare();
    if (!drive->is_direct()) {
      Warn(report, "odirect_effective",
           absl::StrCat(drive->directory(),
                        ": through the page cache, so reads may be of memory and "
                        "writes may not have reached the drive"));
    } else if (cached > 0.01) {
      Warn(report, "odirect_effective",
           absl::StrFormat("%s: the page cache holds %.0f %% of the file in spite of "
                           "direct I/O: the filesystem does not do it",
                           drive->directory(), 100 * cached));
    } else {
      Pass(report, "odirect_effective", "nothing of the file is in the page cache");
    }
    const int64_t stored = drive->StoredBytes();
    if (stored < drive->data_bytes() / 100 * 95) {
      Warn(report, "no_holes",
           absl::StrCat(drive->directory(), ": the filesystem stores ",
                        FormatSize(stored), " for ", FormatSize(drive->data_bytes()),
                        " of data: it compresses or keeps holes"));
    }
    const double huge = drive->huge_page_share();
    if (bench.settings().pages == Pages::kHuge && huge < 0.9) {
      Warn(
          report, "huge_pages",
          absl::StrFormat("only %.0f %% of the memory lies in huge pages", 100 * huge));
    }
  }
  for (const Phase& phase : report.phases) {
    if (phase.io.kernel_workers_max > 0 && bench.settings().direct == DirectIo::kOn) {
      Warn(report, "no_kernel_workers",
           absl::StrCat(phase.label, ": io_uring used ", phase.io.kernel_workers_max,
                        " threads of the kernel: the slow path"));
    }
    if (!phase.is_stable()) {
      Warn(report, "steady",
           absl::StrFormat("%s: loops differ by %.0f %%: other work on this machine or "
                           "its drive",
                           phase.label, 100 * phase.variation));
    }
  }
}

}  // namespace strata
