#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/size.h"
#include "tiers/io_queue_probe.h"
#include "tiers/swap_file.h"
#include "tools/machine/machine_report.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kAioEventsNeeded = 1024;

void AddKernelLimits(const SystemView& system, Section& section) {
  const auto disabled = system.Number("/proc/sys/kernel/io_uring_disabled");
  section.Add("io_uring_disabled", disabled ? Json(*disabled) : Json(nullptr),
              "io_uring_disabled",
              !disabled        ? "this kernel has no such switch"
              : *disabled == 0 ? "0 (allowed)"
              : *disabled == 1 ? "1 (for privileged processes only)"
                               : absl::StrCat(*disabled, " (for nobody)"));
  if (disabled.value_or(0) != 0) {
    section.limits.push_back({absl::StrCat("kernel.io_uring_disabled is ", *disabled),
                              "sysctl -w kernel.io_uring_disabled=0 (as root)"});
  }
  const auto aio_max = system.Number("/proc/sys/fs/aio-max-nr");
  const auto aio = system.Number("/proc/sys/fs/aio-nr");
  section.Add("aio_max_nr", aio_max ? Json(*aio_max) : Json(nullptr), "aio-max-nr",
              aio_max ? absl::StrCat(*aio_max, ", ", aio.value_or(0), " in use")
                      : "this kernel has no libaio");
  section.Add("aio_nr", aio ? Json(*aio) : Json(nullptr), "", "");
  if (aio_max && *aio_max - aio.value_or(0) < kAioEventsNeeded) {
    section.limits.push_back(
        {absl::StrCat("fs.aio-max-nr leaves ", *aio_max - aio.value_or(0),
                      " requests for libaio"),
         "sysctl -w fs.aio-max-nr=1048576 (as root)"});
  }
  if (system.file_size_bytes) {
    section.limits.push_back(
        {absl::StrCat("files may not grow over ", FormatSize(*system.file_size_bytes),
                      " (RLIMIT_FSIZE)"),
         "ulimit -f unlimited"});
  }
}

/// The filesystem that `path` lies in, by the longest mount point before it.
std::string FilesystemOf(const SystemView& system, const std::string& path) {
  std::ifstream mounts(absl::StrCat(system.root, "/proc/self/mountinfo"));
  std::string type = "unknown";
  size_t longest = 0;
  for (std::string line; std::getline(mounts, line);) {
    const std::vector<absl::string_view> halves = absl::StrSplit(line, " - ");
    if (halves.size() != 2) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(halves[0], ' ');
    if (words.size() < 5) continue;
    const absl::string_view mount = words[4];
    const bool is_above = mount == "/" || path == mount ||
                          absl::StartsWith(path, absl::StrCat(mount, "/"));
    if (!is_above || mount.size() < longest) continue;
    longest = mount.size();
    type = std::string(halves[1].substr(0, halves[1].find(' ')));
  }
  return type;
}

/// The drive below a filesystem: a directory below /sys with its queue; "" if none.
std::string DriveOf(const SystemView& system, const std::string& path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0) return "";
  const std::string device =
      absl::StrCat("/sys/dev/block/", major(found.st_dev), ":", minor(found.st_dev));
  for (const char* up : {"", "/.."}) {  // a partition has its drive above it
    if (system.Exists(absl::StrCat(device, up, "/queue"))) return device + up;
  }
  return "";
}

void AddDrive(const SystemView& system, const std::string& path, Section& section) {
  const std::string type = FilesystemOf(system, path);
  section.Add("filesystem", type, "filesystem", type);
  const absl::StatusOr<int64_t> available = AvailableBytes(path);
  section.Add("available_bytes", available.ok() ? Json(*available) : Json(nullptr),
              "available",
              available.ok() ? FormatSize(*available)
                             : std::string(available.status().message()));
  if (type == "tmpfs" || type == "ramfs") {
    section.limits.push_back({absl::StrCat(path, " is a ", type,
                                           ": what is written there takes host memory"),
                              "give --nvme_path a directory on a drive"});
  }
  const std::string drive = DriveOf(system, path);
  if (drive.empty()) return;
  const std::string model =
      system.Line(drive + "/device/model").value_or("no model name");
  const bool rotates = system.Number(drive + "/queue/rotational").value_or(0) != 0;
  section.Add(
      "drive", model, "drive",
      absl::StrCat(model, rotates ? ", says that it rotates" : ", solid state"));
  section.Add("rotational", rotates, "", "");
  const auto width = system.Number(drive + "/device/device/current_link_width");
  const auto width_max = system.Number(drive + "/device/device/max_link_width");
  if (width && width_max && *width < *width_max) {
    section.limits.push_back(
        {absl::StrCat("the drive has ", *width, " of its ", *width_max, " PCIe lanes"),
         "move it to a slot with more lanes"});
  }
}

void AddBackend(const SystemView& system, const IoProbe& probe, Section& section,
                Json& backends) {
  const bool works = probe.status.ok();
  const std::string detail =
      works ? probe.description : std::string(probe.status.message());
  backends.push_back(
      {{"name", Name(probe.backend)}, {"works", works}, {"detail", detail}});
  section.Add("", nullptr, Name(probe.backend),
              absl::StrCat(works ? "works" : "does not work",
                           detail.empty() ? "" : ": ", detail));
  if (works || probe.backend == IoBackend::kThreads) return;
  const bool is_uring = probe.backend == IoBackend::kIoUring;
  const bool is_switched_off =
      is_uring && system.Number("/proc/sys/kernel/io_uring_disabled").value_or(0) != 0;
  if (is_switched_off) return;  // said for the whole machine
  section.limits.push_back(
      {absl::StrCat(Name(probe.backend), " does not work in ", section.title,
                    ": another backend is used, with more CPU time"),
       absl::IsPermissionDenied(probe.status) || absl::IsUnimplemented(probe.status)
           ? "a container's filter forbids it: docker run --security-opt "
             "seccomp=unconfined, or a profile that allows it"
           : "see the reason above"});
}

/// The path itself or the lowest directory above it that is there.
std::string ExistingDirectory(std::filesystem::path path) {
  std::error_code ignored;
  while (path.has_relative_path() && !std::filesystem::exists(path, ignored)) {
    path = path.parent_path();
  }
  return path.string();
}

/// Absolute, without "." and without a slash at the end.
std::string Normalize(const std::string& path) {
  const std::filesystem::path normal =
      std::filesystem::absolute(path).lexically_normal();
  return normal.has_filename() ? normal.string() : normal.parent_path().string();
}

Section ProbeDirectory(const SystemView& system, const std::string& path) {
  Section section{.key = "path", .title = path};
  section.Add("path", path, "", "");
  Json backends = Json::array();
  const absl::StatusOr<std::vector<IoProbe>> probes = ProbeIoBackends(path);
  if (probes.ok()) {
    AddDrive(system, ExistingDirectory(path), section);
    const bool is_direct = !probes->empty() && probes->front().is_direct;
    section.Add("direct_io", is_direct, "direct I/O", is_direct ? "yes" : "no");
    if (!is_direct) {
      section.limits.push_back(
          {absl::StrCat("the filesystem of ", path,
                        " has no direct I/O: every transfer is copied once more"),
           "give --nvme_path a directory on ext4, XFS or Btrfs"});
    }
    for (const IoProbe& probe : *probes) AddBackend(system, probe, section, backends);
  } else {
    section.limits.push_back(
        {absl::StrCat(path, " cannot be used: ", probes.status().message()),
         "give --nvme_path a directory that you may write to, on a drive with room"});
  }
  section.Add("usable", probes.ok(), "", "");
  section.Add("backends", std::move(backends), "", "");
  return section;
}

}  // namespace

Section ProbeNvme(const SystemView& system, const std::vector<std::string>& paths) {
  Section section{.key = "nvme", .title = "NVMe", .parts_key = "paths"};
  AddKernelLimits(system, section);
  for (const std::string& path : paths) {
    section.parts.push_back(ProbeDirectory(system, Normalize(path)));
  }
  return section;
}

}  // namespace strata
