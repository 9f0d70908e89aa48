#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kColumnThreads = 64;

/// input_gradient = residual + r * (w * dy - x * r^2 * mean(w * dy * x)), r = 1 / rms.
template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads) InputGradientKernel(RmsNormBackward op) {
  const int64_t row = blockIdx.x;
  const int64_t start = op.groups.Start(row, op.width);
  const T* const gradient = static_cast<const T*>(op.output_gradient) + start;
  const T* const input = static_cast<const T*>(op.input) + start;
  const T* const weight = static_cast<const T*>(op.weight);
  const T* const residual = static_cast<const T*>(op.residual_gradient);
  T* const result = static_cast<T*>(op.input_gradient) + start;
  const float inverse_rms = op.inverse_rms[row];
  const int64_t first = threadIdx.x * kElements;
  constexpr int64_t kStep = kThreads * kElements;

  float products = 0.0f;
  for (int64_t column = first; column < op.width; column += kStep) {
    const Pack<T, kElements> dy = LoadPack<kElements>(gradient + column);
    const Pack<T, kElements> x = LoadPack<kElements>(input + column);
    const Pack<T, kElements> w = LoadPack<kElements>(weight + column);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      products += ToFloat(dy.values[i]) * ToFloat(w.values[i]) * ToFloat(x.values[i]);
    }
  }
  const float mean =
      ReduceBlock<kThreads>(products, PlusOperation()) / static_cast<float>(op.width);
  const float factor = mean * inverse_rms * inverse_rms;

  for (int64_t column = first; column < op.width; column += kStep) {
    const Pack<T, kElements> dy = LoadPack<kElements>(gradient + column);
    const Pack<T, kElements> x = LoadPack<kElements>(input + column);
    const Pack<T, kElements> w = LoadPack<kElements>(weight + column);
    Pack<T, kElements> before = {};
    if (residual != nullptr) before = LoadPack<kElements>(residual + start + column);
    Pack<T, kElements> dx;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float norm =
          ToFloat(w.values[i]) * ToFloat(dy.values[i]) - ToFloat(x.values[i]) * factor;
      dx.values[i] = FromFloat<T>(ToFloat(before.values[i]) + norm * inverse_rms);
    }
    StorePack<kElements>(result + column, dx);
  }
}

/// partials[p][column] = sum of dy * x / rms over the p-th block of `block_rows` rows.
template <typename T, int kElements>
__global__ void __launch_bounds__(kColumnThreads)
    WeightPartialKernel(RmsNormBackward op, float* partials, int64_t block_rows) {
  const int64_t column =
      (static_cast<int64_t>(blockIdx.y) * kColumnThreads + threadIdx.x) * kElements;
  if (column >= op.width) return;
  const int64_t begin = blockIdx.x * block_rows;
  const int64_t end = begin + block_rows < op.rows ? begin + block_rows : op.rows;
  Pack<float, kElements> sums = {};
#pragma unroll 4
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = op.groups.Start(row, op.width) + column;
    const Pack<T, kElements> dy =
        LoadPack<kElements>(static_cast<const T*>(op.output_gradient) + at);
    const Pack<T, kElements> x =
        LoadPack<kElements>(static_cast<const T*>(op.input) + at);
    const float inverse_rms = op.inverse_rms[row];
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      sums.values[i] += ToFloat(dy.values[i]) * (ToFloat(x.values[i]) * inverse_rms);
    }
  }
  StorePack<kElements>(partials + blockIdx.x * op.width + column, sums);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const RmsNormBackward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const int64_t block_rows = CeilDiv(op.rows, RowPartials(op.rows));
  const int64_t partial_count = CeilDiv(op.rows, block_rows);
  float* const partials = reinterpret_cast<float*>(op.workspace);
  const bool can_pack = CanPack({op.input_gradient, op.output_gradient,
                                 op.residual_gradient, op.input, op.weight},
                                {op.width, op.groups.stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    using T = decltype(element);
    // The weight's part comes first: input_gradient may be output_gradient, which it
    // reads.
    if (op.weight_accumulator != nullptr) {
      const dim3 grid(BlockCount(partial_count, 1),
                      BlockCount(op.width, kColumnThreads * pack.kElements));
      WeightPartialKernel<T, pack.kElements>
          <<<grid, kColumnThreads, 0, stream>>>(op, partials, block_rows);
      STRATA_RETURN_IF_ERROR(LaunchStatus("RmsNormBackward, partial sums"));
      ColumnSumKernel<<<BlockCount(op.width, kWarp), kColumnSumThreads, 0, stream>>>(
          op.weight_accumulator, partials, op.width, partial_count);
      STRATA_RETURN_IF_ERROR(LaunchStatus("RmsNormBackward, weight"));
    }
    InputGradientKernel<T, pack.kElements>
        <<<BlockCount(op.rows, 1), kThreads, 0, stream>>>(op);
    return LaunchStatus("RmsNormBackward, input");
  });
}

}  // namespace strata::cuda
