/// What it would take for a plan to fit, where none does.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <vector>

#include "runtime/plan/candidates.h"

namespace strata {

/// The least budget of one tier with which a plan fits, the others as they are.
struct Mend {
  TierKind tier = TierKind::kDevice;
  int64_t bytes = 0;  // of the arena
};

struct Mends {
  std::vector<Mend>
      mends;  // the smallest growth first; empty if no single tier mends it
  /// What a plan takes of the device where host memory, and nvme if there is any, are
  /// as large as one likes; 0 if no amount helps.
  int64_t least_device_bytes = 0;
};

/// A budget that is less by a byte is refused, too.
absl::StatusOr<Mends> FindMends(const PlanRequest& request, Candidates& candidates,
                                const TierBytes& budget);

}  // namespace strata
