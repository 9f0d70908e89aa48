/// The forms of attention on CUDA, behind Launch(AttentionForward / AttentionBackward):
/// on tensor cores for bf16 heads of at most 128 columns that 16-byte accesses fit, and
/// plain fp32 arithmetic for everything else. On a card of compute capability 9.0 whole
/// warpgroups multiply. Which one runs depends on card, shapes and alignment only.
#pragma once

#include <absl/status/status.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

namespace strata::cuda {

inline constexpr int64_t kTensorCoreHeadDimMax = 128;

absl::Status LaunchTensorCore(cudaStream_t stream, const AttentionForward& op);
absl::Status LaunchTensorCore(cudaStream_t stream, const AttentionBackward& op);
/// REQUIRES: compute capability 9.0, and a build that has code for it.
absl::Status LaunchWarpgroup(cudaStream_t stream, const AttentionForward& op);
absl::Status LaunchWarpgroup(cudaStream_t stream, const AttentionBackward& op);
absl::Status LaunchPlain(cudaStream_t stream, const AttentionForward& op);
absl::Status LaunchPlain(cudaStream_t stream, const AttentionBackward& op);

/// delta[head][row] = sum of output_gradient * output over the head's columns, which
/// both backward forms need; `delta` is [heads, rows].
absl::Status LaunchDelta(cudaStream_t stream, const AttentionBackward& op,
                         float* delta);

}  // namespace strata::cuda
