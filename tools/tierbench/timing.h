/// Times work that is started and then awaited: kernels on a stream, copies, loops over
/// memory.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <vector>

#include "tools/tierbench/stop.h"

namespace strata {

struct TimedWork {
  std::function<absl::Status()> start;
  std::function<absl::Status()> finish;  // waits for all that was started
};

struct TimeBudget {
  int loops = 5;
  double loop_seconds = 0.2;
};

/// Seconds of one start, for each loop: as many starts as fill `loop_seconds`, then one
/// finish. Warms up before, also to find out how many. Cancelled after `stop`.
absl::StatusOr<std::vector<double>> TimeWork(const TimedWork& work, TimeBudget budget,
                                             const Stop& stop);

}  // namespace strata
