#include "kernels/cuda/attention.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;

/// A warp per head of a row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DeltaKernel(AttentionBackward op, float* delta) {
  const int64_t rows = op.sequences * op.length;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (item >= rows * op.heads) return;
  const int64_t row = item / op.heads;
  const int64_t head = item - row * op.heads;
  const int64_t start = item * op.head_dim;  // of [rows, heads, head_dim]
  const T* const gradient = static_cast<const T*>(op.output_gradient) + start;
  const T* const output = static_cast<const T*>(op.output) + start;
  float sum = 0.0f;
  for (int64_t column = threadIdx.x % kWarp * 2; column < op.head_dim;
       column += 2 * kWarp) {
    const Pack<T, 2> g = LoadPack<2>(gradient + column);
    const Pack<T, 2> o = LoadPack<2>(output + column);
    sum += ToFloat(g.values[0]) * ToFloat(o.values[0]) +
           ToFloat(g.values[1]) * ToFloat(o.values[1]);
  }
  sum = ReduceLanes(sum, PlusOperation());
  if (threadIdx.x % kWarp == 0) delta[head * rows + row] = sum;
}

/// Whether every row of every head can be moved in chunks of 16 bytes.
template <typename Op>
bool FitsTensorCores(const Op& op, std::initializer_list<const void*> pointers) {
  return op.dtype == DType::kBF16 && op.head_dim <= kTensorCoreHeadDimMax &&
         CanPack(pointers, {op.head_dim, op.row_stride});
}

#if STRATA_HAS_SM90
/// Warpgroup multiplications are code for one kind of card only.
absl::StatusOr<bool> HasWarpgroups() {
  int device = 0, major = 0, minor = 0;
  STRATA_CUDA_RETURN_IF_ERROR(cudaGetDevice(&device), "Attention");
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
      "Attention");
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
      "Attention");
  return major == 9 && minor == 0;
}
#endif

template <typename Op>
absl::Status LaunchOnTensorCores(cudaStream_t stream, const Op& op) {
#if STRATA_HAS_SM90
  STRATA_ASSIGN_OR_RETURN(const bool warpgroups, HasWarpgroups());
  if (warpgroups) return LaunchWarpgroup(stream, op);
#endif
  return LaunchTensorCore(stream, op);
}

}  // namespace

absl::Status LaunchDelta(cudaStream_t stream, const AttentionBackward& op,
                         float* delta) {
  return ForDType(op.dtype, [&](auto element) {
    DeltaKernel<decltype(element)>
        <<<BlockCount(op.sequences * op.length * op.heads, kWarps), kThreads, 0,
           stream>>>(op, delta);
    return LaunchStatus("AttentionBackward, delta");
  });
}

absl::Status Launch(cudaStream_t stream, const AttentionForward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  return FitsTensorCores(op, {op.output, op.query, op.key, op.value})
             ? LaunchOnTensorCores(stream, op)
             : LaunchPlain(stream, op);
}

absl::Status Launch(cudaStream_t stream, const AttentionBackward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  return FitsTensorCores(op,
                         {op.query_gradient, op.key_gradient, op.value_gradient,
                          op.output_gradient, op.output, op.query, op.key, op.value})
             ? LaunchOnTensorCores(stream, op)
             : LaunchPlain(stream, op);
}

}  // namespace strata::cuda
