/// The whole way between nvme and the device: shards through page-locked host memory,
/// the drive and the link at work at once.
#pragma once

#include <absl/status/statusor.h>

#include "runtime/device/device.h"
#include "tools/tierbench/phase.h"
#include "tools/tierbench/store_bench.h"

namespace strata {

enum class Way : uint8_t { kToDevice, kToNvme };

/// "nvme_to_device" or "device_to_nvme".
absl::StatusOr<Phase> MeasureNvmeDevice(StoreBench& store, Device& device, Way way,
                                        double seconds, const Stop& stop);

}  // namespace strata
