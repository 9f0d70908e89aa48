#include "runtime/base/available_memory.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <vector>

namespace strata {
namespace {

/// "name value ..." or "name: value kB": the number after `name` in such a file.
std::optional<int64_t> ReadField(const std::string& path, absl::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t:"), absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() >= 2 && words[0] == name && absl::SimpleAtoi(words[1], &value)) {
      return words.size() >= 3 && words[2] == "kB" ? value * 1024 : value;
    }
  }
  return std::nullopt;
}

/// The number that is all of a file; nothing for "max".
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  int64_t value = 0;
  if (!std::getline(file, text) || !absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

/// The memory controller of one version of cgroups.
struct Hierarchy {
  std::string mount;
  std::string path;  // of this process, below the mount
  const char* limit;
  const char* usage;
  const char* cache;  // field of memory.stat: what can be dropped when memory is short
};

std::vector<Hierarchy> FindHierarchies(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(absl::StrCat(root, "/proc/self/cgroup"));
  for (std::string line; std::getline(file, line);) {  // "4:memory:/docker/1234"
    const std::vector<std::string> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") !=
        controllers.end()) {
      found.push_back({absl::StrCat(root, "/sys/fs/cgroup/memory"), parts[2],
                       "memory.limit_in_bytes", "memory.usage_in_bytes",
                       "total_inactive_file"});
    } else if (parts[0] == "0" && parts[1].empty()) {
      found.push_back({absl::StrCat(root, "/sys/fs/cgroup"), parts[2], "memory.max",
                       "memory.current", "inactive_file"});
    }
  }
  return found;
}

/// Applies the limits of a process's cgroup and of all above it. Inside a container its
/// own cgroup may be mounted as the root while its path is the one outside: then the
/// path is not there and the root is what counts.
void ApplyLimits(const Hierarchy& hierarchy, AvailableMemory& memory) {
  std::string path = hierarchy.path;
  while (true) {
    if (path == "/") path.clear();
    const std::string directory = absl::StrCat(hierarchy.mount, path, "/");
    const auto limit = ReadNumber(absl::StrCat(directory, hierarchy.limit));
    const auto usage = ReadNumber(absl::StrCat(directory, hierarchy.usage));
    if (limit && usage && *limit < memory.total_bytes) {
      const int64_t cache =
          ReadField(absl::StrCat(directory, "memory.stat"), hierarchy.cache)
              .value_or(0);
      const int64_t left = std::max<int64_t>(*limit - (*usage - cache), 0);
      if (left < memory.available_bytes) {
        memory.available_bytes = left;
        memory.limiting_cgroup = path.empty() ? "/" : path;
        memory.cgroup_limit_bytes = *limit;
      }
    }
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

absl::StatusOr<AvailableMemory> FindAvailableMemory(const std::string& root) {
  const std::string path = absl::StrCat(root, "/proc/meminfo");
  const auto total = ReadField(path, "MemTotal");
  const auto available = ReadField(path, "MemAvailable");
  if (!total || !available) {
    return absl::NotFoundError(absl::StrCat(path, ": no MemTotal or no MemAvailable"));
  }
  AvailableMemory memory{.total_bytes = *total, .available_bytes = *available};
  for (const Hierarchy& hierarchy : FindHierarchies(root)) {
    ApplyLimits(hierarchy, memory);
  }
  return memory;
}

}  // namespace strata
