/// What host memory and the CPU give: one thread's copies, all threads' bandwidth.
#pragma once

#include <absl/status/statusor.h>

#include "tools/tierbench/phase.h"
#include "tools/tierbench/stop.h"
#include "tools/tierbench/timing.h"

namespace strata {

/// "host_copy": one thread's memcpy, counted in bytes copied.
absl::StatusOr<Phase> MeasureHostCopy(TimeBudget budget, const Stop& stop);

/// "host_memory": copies on all threads at once, counted in bytes read and written.
absl::StatusOr<Phase> MeasureHostMemory(int threads, TimeBudget budget,
                                        const Stop& stop);

}  // namespace strata
