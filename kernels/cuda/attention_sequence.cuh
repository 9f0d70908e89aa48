/// Where a block of the attention gradient finds its rows and numbers.
#pragma once

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/ops.h"

namespace strata::cuda {

/// Where the sequence of this block (blockIdx.z) lies.
struct Sequence {
  __device__ explicit Sequence(const AttentionBackward& op)
      : length(static_cast<int>(op.length)),
        head_dim(static_cast<int>(op.head_dim)),
        first_row(blockIdx.z * op.length),
        rows(op.sequences * op.length),
        documents(op.documents + first_row) {}

  __device__ HeadRows Rows(const void* data, int64_t row_stride, int head) const {
    return {static_cast<const __nv_bfloat16*>(data) + first_row * row_stride +
                head * head_dim,
            row_stride, head_dim, length};
  }
  __device__ __nv_bfloat16* Target(void* data, int64_t row_stride, int head) const {
    return static_cast<__nv_bfloat16*>(data) + first_row * row_stride + head * head_dim;
  }
  /// The sequence's part of a [heads, rows] array.
  __device__ const float* Numbers(const float* data, int head) const {
    return data + head * rows + first_row;
  }

  int length;
  int head_dim;
  int64_t first_row;
  int64_t rows;  // of all sequences
  const int32_t* documents;
};

/// Starts copying numbers[first_row, first_row + kRows) into `target`, zero beyond
/// length.
template <int kRows>
__device__ void StartLoadNumbers(void* target, const void* numbers, int first_row,
                                 int length) {
  if (threadIdx.x < kRows) {
    const int row = first_row + threadIdx.x;
    const bool valid = row < length;
    CopyAsync4(static_cast<char*>(target) + threadIdx.x * 4,
               static_cast<const char*>(numbers) + (valid ? row : 0) * int64_t{4},
               valid);
  }
}

}  // namespace strata::cuda
