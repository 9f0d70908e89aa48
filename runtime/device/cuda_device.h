/// The Device over the CUDA runtime. This header knows nothing of CUDA, so that callers
/// need no #ifdef: a build without the toolkit links no_cuda_device.cc instead, whose
/// CreateCudaDevice always says why there is none.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "runtime/device/device.h"

namespace strata {

/// Makes the context of GPU number `ordinal` and the calling thread's current device.
/// Unavailable where there is no driver, no GPU or no CUDA in this build, NotFound if
/// there are fewer GPUs.
///
/// Device memory comes from cudaMalloc, each buffer rounded up to 2 MiB, the unit in
/// which the driver takes memory from the card. Pinned memory is populated before it is
/// registered, so it counts as resident at once.
///
/// overhead_bytes() is total - free - buffers at the time of the call, because the
/// driver tells free memory per card and not per process. On a card with other users it
/// counts their memory as overhead, too: a plan made from it is then smaller than it
/// could be, and still right. Ask after CreateKernels, whose libraries it should
/// contain.
///
/// A stream's Wait may only name a stream that the same thread uses.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int ordinal);

}  // namespace strata
