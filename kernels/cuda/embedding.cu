#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads)
    EmbeddingForwardKernel(EmbeddingForward op) {
  const int64_t at = FirstElement<kElements>();
  if (at >= op.rows * op.width) return;
  const int64_t row = at / op.width;
  const int32_t token = op.tokens[row];
  DeviceCheck(token >= 0 && token < op.vocab);
  const int64_t source = token * op.width + (at - row * op.width);
  StorePack<kElements>(static_cast<T*>(op.output) + at,
                       LoadPack<kElements>(static_cast<const T*>(op.weight) + source));
}

/// Whether an earlier row than `row` has its token. Read by the whole block.
__device__ bool IsRepeated(const int32_t* tokens, int64_t row) {
  const int32_t token = tokens[row];
  bool found = false;
  for (int64_t other = threadIdx.x; other < row; other += kThreads) {
    found |= tokens[other] == token;
  }
  return __syncthreads_or(found) != 0;
}

/// The block of a token's first row adds up all rows of that token, in row order, so
/// that nothing depends on which block runs first; the blocks of its other rows do
/// nothing. blockIdx.y is a range of kThreads * kElements columns.
template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads)
    EmbeddingBackwardKernel(EmbeddingBackward op) {
  __shared__ int matches[kThreads];  // rows of the token among kThreads rows, ascending
  __shared__ int warp_counts[kThreads / 32];
  const int64_t first_row = blockIdx.x;
  if (IsRepeated(op.tokens, first_row)) return;
  const int32_t token = op.tokens[first_row];
  DeviceCheck(token >= 0 && token < op.vocab);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * kElements;
  const bool has_column = column < op.width;
  float* const target = op.accumulator + token * op.width + column;
  Pack<float, kElements> sums = {};
  if (has_column) sums = LoadPack<kElements>(target);

  for (int64_t begin = first_row; begin < op.rows; begin += kThreads) {
    const int64_t row = begin + threadIdx.x;
    const bool match = row < op.rows && op.tokens[row] == token;
    const unsigned ballot = __ballot_sync(0xFFFFFFFFu, match);
    if (lane == 0) warp_counts[warp] = __popc(ballot);
    __syncthreads();
    int before = __popc(ballot & ((1u << lane) - 1));
    int count = 0;
    for (int i = 0; i < kThreads / 32; ++i) {
      if (i < warp) before += warp_counts[i];
      count += warp_counts[i];
    }
    if (match) matches[before] = static_cast<int>(row - begin);
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < (has_column ? count : 0); ++i) {
      const T* const source = static_cast<const T*>(op.output_gradient) +
                              (begin + matches[i]) * op.width + column;
      const Pack<T, kElements> gradient = LoadPack<kElements>(source);
#pragma unroll
      for (int j = 0; j < kElements; ++j) sums.values[j] += ToFloat(gradient.values[j]);
    }
    __syncthreads();  // `matches` and `warp_counts` are written again
  }
  if (has_column) StorePack<kElements>(target, sums);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const EmbeddingForward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.output, op.weight}, {op.width});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    EmbeddingForwardKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows * op.width, kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("EmbeddingForward");
  });
}

absl::Status Launch(cudaStream_t stream, const EmbeddingBackward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.accumulator, op.output_gradient}, {op.width});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    const dim3 grid(BlockCount(op.rows, 1),
                    BlockCount(op.width, kThreads * pack.kElements));
    EmbeddingBackwardKernel<decltype(element), pack.kElements>
        <<<grid, kThreads, 0, stream>>>(op);
    return LaunchStatus("EmbeddingBackward");
  });
}

}  // namespace strata::cuda
