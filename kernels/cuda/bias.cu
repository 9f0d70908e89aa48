#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kColumnThreads = 64;

template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads) AddBiasKernel(AddBias op) {
  const int64_t dense = FirstElement<kElements>();
  if (dense >= op.rows * op.width) return;
  const int64_t row = dense / op.width;
  const int64_t column = dense - row * op.width;
  T* const at = static_cast<T*>(op.values) + row * op.row_stride + column;
  const Pack<T, kElements> value = LoadPack<kElements>(at);
  const Pack<T, kElements> bias =
      LoadPack<kElements>(static_cast<const T*>(op.bias) + column);
  Pack<T, kElements> sum;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    sum.values[i] = FromFloat<T>(ToFloat(value.values[i]) + ToFloat(bias.values[i]));
  }
  StorePack<kElements>(at, sum);
}

/// partials[p][column] = sum over the p-th block of `block_rows` rows.
template <typename T, int kElements>
__global__ void __launch_bounds__(kColumnThreads)
    PartialKernel(BiasGradient op, float* partials, int64_t block_rows) {
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * kElements;
  if (column >= op.width) return;
  const int64_t begin = blockIdx.x * block_rows;
  const int64_t end = begin + block_rows < op.rows ? begin + block_rows : op.rows;
  const T* const gradient = static_cast<const T*>(op.output_gradient) + column;
  Pack<float, kElements> sums = {};
#pragma unroll 4
  for (int64_t row = begin; row < end; ++row) {
    const Pack<T, kElements> values =
        LoadPack<kElements>(gradient + row * op.row_stride);
#pragma unroll
    for (int i = 0; i < kElements; ++i) sums.values[i] += ToFloat(values.values[i]);
  }
  StorePack<kElements>(partials + blockIdx.x * op.width + column, sums);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const AddBias& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.values, op.bias}, {op.width, op.row_stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    AddBiasKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows * op.width, kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("AddBias");
  });
}

absl::Status Launch(cudaStream_t stream, const BiasGradient& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const int64_t block_rows = CeilDiv(op.rows, RowPartials(op.rows));
  const int64_t partial_count = CeilDiv(op.rows, block_rows);
  float* const partials = reinterpret_cast<float*>(op.workspace);
  const bool can_pack = CanPack({op.output_gradient}, {op.width, op.row_stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    const dim3 grid(BlockCount(partial_count, 1),
                    BlockCount(op.width, kColumnThreads * pack.kElements));
    PartialKernel<decltype(element), pack.kElements>
        <<<grid, kColumnThreads, 0, stream>>>(op, partials, block_rows);
    STRATA_RETURN_IF_ERROR(LaunchStatus("BiasGradient, partial sums"));
    ColumnSumKernel<<<BlockCount(op.width, kWarp), kColumnSumThreads, 0, stream>>>(
        op.accumulator, partials, op.width, partial_count);
    return LaunchStatus("BiasGradient");
  });
}

}  // namespace strata::cuda
