/// Tiles of attention for warpgroup multiplications. A block has two warpgroups, each
/// with 64 of the block's 128 own rows (queries, or keys); tiles of the other side
/// stream past both. As in attention_tiles.cuh, what a warpgroup computes stays in its
/// registers.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace strata::cuda {

inline constexpr int kWarpgroup = 128;
inline constexpr int kWarpgroupRows = 64;
inline constexpr int kWideThreads = 2 * kWarpgroup;
inline constexpr int kWideRows = 2 * kWarpgroupRows;

/// bf16 [kRows, kWidth] in shared memory, 1024-byte aligned: blocks of 64 columns one
/// after the other, each with rows of 128 bytes whose chunks are permuted.
template <int kRows, int kWidth>
class WideTile {
 public:
  static constexpr int kChunks = kWidth / 8;
  static constexpr int kBlockBytes = kRows * 128;
  static constexpr int kBytes = kRows * kWidth * 2;
  static_assert(kWidth % 64 == 0 && kRows % 64 == 0);

  __device__ explicit WideTile(unsigned char* data) : data_(data) {}
  __device__ unsigned char* At(int row, int chunk) const {
    return data_ + chunk / 8 * kBlockBytes + row * 128 + (chunk % 8 ^ row % 8) * 16;
  }
  /// Columns [16 k, 16 k + 16) of the rows from `first_row` (a multiple of 8) on, as a
  /// factor whose columns are summed over.
  __device__ uint64_t Columns(int first_row, int k) const {
    return MatrixDescriptor(
        SharedAddress(data_) + k / 4 * kBlockBytes + first_row * 128 + k % 4 * 32, 16);
  }
  /// Rows [16 k, 16 k + 16), all columns, as a factor whose rows are summed over.
  __device__ uint64_t Rows(int k) const {
    return MatrixDescriptor(SharedAddress(data_) + k * 16 * 128, kBlockBytes);
  }

 private:
  unsigned char* data_;
};

/// Starts scores[64, kRows] = own * streamed^T, for the 64 rows of `own` from `own_row`
/// on.
template <int kOwn, int kRows, int kWidth>
__device__ void StartTransposed(float (&scores)[kRows / 8][4],
                                WideTile<kOwn, kWidth> own, int own_row,
                                WideTile<kRows, kWidth> streamed) {
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    MultiplyTiles(scores, own.Columns(own_row, k), streamed.Columns(0, k), k > 0);
  }
}

/// Weights [64, kRows], rounded to bf16, as left operands.
template <int kRows>
struct LeftOperands {
  __device__ void Take(const float (&weights)[kRows / 8][4]) {
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) {
      const float(&left)[4] = weights[2 * k];
      const float(&right)[4] = weights[2 * k + 1];
      registers[k][0] = PackBf16(left[0], left[1]);
      registers[k][1] = PackBf16(left[2], left[3]);
      registers[k][2] = PackBf16(right[0], right[1]);
      registers[k][3] = PackBf16(right[2], right[3]);
    }
  }
  uint32_t registers[kRows / 16][4];
};

/// Starts result[64, kWidth] += weights[64, kRows] * streamed.
template <int kRows, int kWidth>
__device__ void StartWeighted(float (&result)[kWidth / 8][4],
                              const LeftOperands<kRows>& weights,
                              WideTile<kRows, kWidth> streamed) {
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    MultiplyRegisters(result, weights.registers[k], streamed.Rows(k));
  }
}

}  // namespace strata::cuda
