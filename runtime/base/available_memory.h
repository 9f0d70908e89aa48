/// How much host memory a run may take: what the machine has free, or what is left of
/// the container's limit, whichever is less. In a container the machine's figure alone
/// leads to a budget that ends with the process being killed.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

namespace strata {

struct AvailableMemory {
  int64_t total_bytes = 0;  // of the machine
  int64_t available_bytes =
      0;  // without swapping, pages of cached files counted as free
  /// The cgroup whose limit leaves less than the machine has, by its path; "" for none.
  std::string limiting_cgroup;
  int64_t cgroup_limit_bytes = 0;  // of that cgroup
};

/// `root` goes before /proc and /sys: "" on a real system, a directory in tests.
/// NotFound if /proc/meminfo cannot be read.
absl::StatusOr<AvailableMemory> FindAvailableMemory(const std::string& root);

}  // namespace strata
