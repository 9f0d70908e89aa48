#include "tools/machine/system_view.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace strata {
namespace {

std::optional<int64_t> LimitOf(__rlimit_resource resource) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::nullopt;
  }
  return static_cast<int64_t>(limit.rlim_cur);
}

}  // namespace

SystemView SystemView::OfThisMachine() {
  SystemView view;
  utsname names;
  if (uname(&names) == 0) {
    view.kernel = names.release;
    view.architecture = names.machine;
  }
  view.page_bytes = sysconf(_SC_PAGESIZE);
  cpu_set_t cores;
  view.core_count = sched_getaffinity(0, sizeof(cores), &cores) == 0
                        ? CPU_COUNT(&cores)
                        : sysconf(_SC_NPROCESSORS_ONLN);
  view.memlock_bytes = LimitOf(RLIMIT_MEMLOCK);
  view.file_size_bytes = LimitOf(RLIMIT_FSIZE);
  struct statvfs shm;
  if (statvfs("/dev/shm", &shm) == 0) {
    view.shm_bytes = static_cast<int64_t>(shm.f_blocks * shm.f_frsize);
  }
  return view;
}

std::optional<std::string> SystemView::Line(const std::string& path) const {
  std::ifstream file(root + path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return std::string(absl::StripAsciiWhitespace(line));
}

std::optional<int64_t> SystemView::Number(const std::string& path) const {
  const std::optional<std::string> line = Line(path);
  int64_t number = 0;
  if (!line || !absl::SimpleAtoi(*line, &number)) return std::nullopt;
  return number;
}

std::optional<std::string> SystemView::Field(const std::string& path,
                                             const std::string& name) const {
  std::ifstream file(root + path);
  for (std::string line; std::getline(file, line);) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == name) {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return std::nullopt;
}

std::vector<std::string> SystemView::List(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(root + path, error), end;
       !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool SystemView::Exists(const std::string& path) const {
  std::error_code ignored;
  return std::filesystem::exists(root + path, ignored);
}

bool SystemView::MayLockAnyMemory() const {
  constexpr uint64_t kIpcLock = uint64_t{1} << 14;
  const std::optional<std::string> effective = Field("/proc/self/status", "CapEff");
  uint64_t capabilities = 0;
  return effective && absl::SimpleHexAtoi(*effective, &capabilities) &&
         (capabilities & kIpcLock) != 0;
}

bool SystemView::IsKernelAtLeast(int major, int minor) const {
  const std::vector<std::string> parts =
      absl::StrSplit(kernel, absl::ByAnyChar(".-+_"), absl::SkipEmpty());
  int found_major = 0, found_minor = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &found_major) ||
      !absl::SimpleAtoi(parts[1], &found_minor)) {
    return false;
  }
  return std::pair(found_major, found_minor) >= std::pair(major, minor);
}

}  // namespace strata
