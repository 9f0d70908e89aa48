/// Asks at the start what would otherwise be an error of the first launch.
#pragma once

#include <absl/status/status.h>

namespace strata::cuda {

/// Unimplemented if this build holds no machine code that the current device can run.
absl::Status CheckKernelImage();

}  // namespace strata::cuda
