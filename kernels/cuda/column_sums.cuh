/// The end of a sum over many rows, column by column: partial sums of blocks of rows
/// are there, and are added up in an order that depends on their number only.
#pragma once

#include <cstdint>

#include "kernels/cuda/reduce.cuh"

namespace strata::cuda {

inline constexpr int kColumnSumThreads = 256;

/// accumulator[column] += sum of partials[0 .. count)[column]: 8 groups of them, then
/// the groups in order. A block for each 32 columns.
static __global__ void __launch_bounds__(kColumnSumThreads)
    ColumnSumKernel(float* accumulator, const float* partials, int64_t width,
                    int64_t count) {
  constexpr int kGroups = kColumnSumThreads / kWarp;
  __shared__ float group_sums[kGroups][kWarp];
  const int lane = threadIdx.x % kWarp;
  const int group = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  float sum = 0.0f;
  if (column < width) {
#pragma unroll 4
    for (int64_t i = group; i < count; i += kGroups) {
      sum += partials[i * width + column];
    }
  }
  group_sums[group][lane] = sum;
  __syncthreads();
  if (group != 0 || column >= width) return;
  float total = 0.0f;
#pragma unroll
  for (int i = 0; i < kGroups; ++i) total += group_sums[i][lane];
  accumulator[column] += total;
}

}  // namespace strata::cuda
