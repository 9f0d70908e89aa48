/// The operations on a CUDA device. No CUDA header is needed to include this, so that
/// one list of callers serves builds with and without CUDA (which return
/// Unimplemented).
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "kernels/ops.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Kernels>> CreateCudaKernels(
    const KernelOptions& options);

}  // namespace strata
