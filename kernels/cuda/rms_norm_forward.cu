#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

/// One block per row; the second reading of the row comes from the L1 cache.
template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads) RmsNormForwardKernel(RmsNormForward op) {
  const int64_t row = blockIdx.x;
  const int64_t start = op.groups.Start(row, op.width);
  const T* const input = static_cast<const T*>(op.input) + start;
  const T* const weight = static_cast<const T*>(op.weight);
  T* const output = static_cast<T*>(op.output) + start;
  const int64_t first = threadIdx.x * kElements;
  constexpr int64_t kStep = kThreads * kElements;

  float squares = 0.0f;
  for (int64_t column = first; column < op.width; column += kStep) {
    const Pack<T, kElements> x = LoadPack<kElements>(input + column);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      squares += ToFloat(x.values[i]) * ToFloat(x.values[i]);
    }
  }
  const float sum = ReduceBlock<kThreads>(squares, PlusOperation());
  const float inverse_rms =
      1.0f / sqrtf(sum / static_cast<float>(op.width) + op.epsilon);
  if (threadIdx.x == 0) op.inverse_rms[row] = inverse_rms;

  for (int64_t column = first; column < op.width; column += kStep) {
    const Pack<T, kElements> x = LoadPack<kElements>(input + column);
    const Pack<T, kElements> w = LoadPack<kElements>(weight + column);
    Pack<T, kElements> y;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      y.values[i] =
          FromFloat<T>(ToFloat(x.values[i]) * inverse_rms * ToFloat(w.values[i]));
    }
    StorePack<kElements>(output + column, y);
  }
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const RmsNormForward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack =
      CanPack({op.input, op.weight, op.output}, {op.width, op.groups.stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    RmsNormForwardKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows, 1), kThreads, 0, stream>>>(op);
    return LaunchStatus("RmsNormForward");
  });
}

}  // namespace strata::cuda
