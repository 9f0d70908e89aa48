/// Tiles of attention in shared memory and their products on tensor cores.
///
/// A block of four warps works on 64 rows of its own (queries, or keys), 16 per warp,
/// and streams tiles of the other side past them. Both products below read the streamed
/// tile; what a warp computes stays in its registers, so warps exchange nothing.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/mma.cuh"

namespace strata::cuda {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kWarpRows = 16;
inline constexpr int kOwnRows = kAttentionThreads / 32 * kWarpRows;
inline constexpr float kLog2E = 1.44269504088896340736f;

/// A lane's place in a 16x8 accumulator: rows row() and row() + 8, columns column() and
/// column() + 1.
struct LanePlace {
  __device__ static int row() { return threadIdx.x % 32 / 4; }
  __device__ static int column() { return threadIdx.x % 4 * 2; }
};

/// bf16 [rows, kWidth] in shared memory. The 16-byte chunks of a row are permuted by
/// the row's number, so that eight rows of one column of chunks lie in different banks.
template <int kWidth>
class Tile {
 public:
  static constexpr int kChunks = kWidth / 8;
  static_assert(kChunks % 8 == 0);

  __device__ explicit Tile(__nv_bfloat16* data) : data_(data) {}
  /// The chunk of columns [8 * chunk, 8 * chunk + 8).
  __device__ __nv_bfloat16* At(int row, int chunk) const {
    return data_ + row * kWidth + (chunk ^ row % 8) * 8;
  }

 private:
  __nv_bfloat16* data_;
};

/// Rows of one head in global memory.
struct HeadRows {
  const __nv_bfloat16* data;  // row 0 of the sequence, first column of the head
  int64_t row_stride;         // elements
  int head_dim;               // at most the tile's width; the rest reads as zero
  int length;                 // rows from here on read as zero
};

/// Starts copying kRows rows from `first_row` on into `tile`. The whole block of
/// kThreads calls it.
template <int kRows, int kThreads = kAttentionThreads, typename AnyTile>
__device__ void StartLoad(AnyTile tile, const HeadRows& rows, int first_row) {
  constexpr int kChunks = AnyTile::kChunks;
  static_assert(kRows * kChunks % kThreads == 0);
#pragma unroll
  for (int i = 0; i < kRows * kChunks / kThreads; ++i) {
    const int index = i * kThreads + threadIdx.x;
    const int row = index / kChunks;
    const int chunk = index % kChunks;
    const bool valid = first_row + row < rows.length && chunk * 8 < rows.head_dim;
    const int64_t offset = (first_row + row) * rows.row_stride + chunk * 8;
    CopyAsync16(tile.At(row, chunk), rows.data + (valid ? offset : 0), valid);
  }
}

/// scores[16, kRows] = own * streamed^T, for the 16 rows of `own` from `own_row` on.
template <int kRows, int kWidth>
__device__ void MultiplyTransposed(float (&scores)[kRows / 8][4], Tile<kWidth> own,
                                   int own_row, Tile<kWidth> streamed) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) scores[n][i] = 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    uint32_t a[4];
    LoadMatrices(a, own.At(own_row + lane % 16, k * 2 + lane / 16));
#pragma unroll
    for (int n = 0; n < kRows / 16; ++n) {
      uint32_t b[4];  // both halves of k for columns 0 to 7, then for 8 to 15
      const int row = n * 16 + lane / 16 * 8 + lane % 8;
      LoadMatrices(b, streamed.At(row, k * 2 + lane / 8 % 2));
      MultiplyAdd(scores[2 * n], a, b[0], b[1]);
      MultiplyAdd(scores[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// result[16, kWidth] += weights[16, kRows] * streamed, weights rounded to bf16.
template <int kRows, int kWidth>
__device__ void AccumulateWeighted(float (&result)[kWidth / 8][4],
                                   const float (&weights)[kRows / 8][4],
                                   Tile<kWidth> streamed) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    const float(&left)[4] = weights[2 * k];
    const float(&right)[4] = weights[2 * k + 1];
    const uint32_t a[4] = {PackBf16(left[0], left[1]), PackBf16(left[2], left[3]),
                           PackBf16(right[0], right[1]), PackBf16(right[2], right[3])};
#pragma unroll
    for (int n = 0; n < kWidth / 16; ++n) {
      uint32_t b[4];
      LoadMatricesTransposed(b, streamed.At(k * 16 + lane % 16, n * 2 + lane / 16));
      MultiplyAdd(result[2 * n], a, b[0], b[1]);
      MultiplyAdd(result[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// target[own rows, head_dim] = factor of the row * result. Rows and columns beyond the
/// sequence or the head are not written.
template <int kWidth>
__device__ void StoreRows(__nv_bfloat16* target, int64_t row_stride, int first_row,
                          int length, int head_dim,
                          const float (&result)[kWidth / 8][4], float factor,
                          float factor_8) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + LanePlace::row() + half * 8;
    if (row >= length) continue;
    const float scale = half == 0 ? factor : factor_8;
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
      const int column = n * 8 + LanePlace::column();
      if (column >= head_dim) continue;
      const uint32_t pair =
          PackBf16(result[n][2 * half] * scale, result[n][2 * half + 1] * scale);
      *reinterpret_cast<uint32_t*>(target + row * row_stride + column) = pair;
    }
  }
}

/// What documents[begin, end) mean for the own rows of a block.
struct DocumentSpan {
  int first;     // no row before it shares a document with the own rows
  int last;      // nor any row after it
  bool uniform;  // all of them are one document: nothing to mask
};

/// The own rows are [own, own + kOwn), as far as they lie before `end`. The whole block
/// of kThreads calls it, once.
template <int kOwn = kOwnRows, int kThreads = kAttentionThreads>
__device__ DocumentSpan SpanOfDocuments(const int32_t* documents, int begin, int end,
                                        int own) {
  __shared__ int bounds[4];  // lowest and highest document, first and last row
  if (threadIdx.x == 0) {
    bounds[0] = INT32_MAX;
    bounds[1] = INT32_MIN;
    bounds[2] = end;
    bounds[3] = begin;
  }
  __syncthreads();
  for (int row = own + threadIdx.x; row < end && row < own + kOwn; row += kThreads) {
    atomicMin(&bounds[0], documents[row]);
    atomicMax(&bounds[1], documents[row]);
  }
  __syncthreads();
  const int low = bounds[0];
  const int high = bounds[1];
  bool same = low == high;
  int first = end;
  int last = begin;
  for (int row = begin + threadIdx.x; row < end; row += kThreads) {
    const int document = documents[row];
    same &= document == low;
    if (document < low || document > high) continue;
    first = row < first ? row : first;
    last = row > last ? row : last;
  }
  atomicMin(&bounds[2], first);
  atomicMax(&bounds[3], last);
  const bool uniform = __syncthreads_and(same) != 0;
  return {bounds[2], bounds[3], uniform};
}

}  // namespace strata::cuda
