/// The link between host memory and the device: each direction alone, and both at once.
#pragma once

#include <absl/status/statusor.h>

#include <vector>

#include "runtime/device/device.h"
#include "tools/tierbench/phase.h"
#include "tools/tierbench/stop.h"
#include "tools/tierbench/timing.h"

namespace strata {

enum class LinkPath : uint8_t { kHostToDevice, kDeviceToHost, kBoth };

/// "host_to_device", "device_to_host" or "both" (the sum of both directions), over
/// page- locked memory, a stream for each direction, copies of `copy_bytes`.
absl::StatusOr<Phase> MeasureLink(Device& device, LinkPath path, int64_t copy_bytes,
                                  TimeBudget budget, const Stop& stop);

}  // namespace strata
