// With P = softmax(S), S = scale * Q K^T and the gradient G of the output O = P V:
//
//   dV = P^T G        dP = G V^T        dS = P * (dP - delta), delta = rowsum(G * O)
//   dQ = scale * dS K                   dK = scale * dS^T Q
//
// Two kernels, so that no sum is added to from two sides: in the first a block owns 64
// keys and streams queries, in the second it owns 64 queries and streams keys. Both
// make P again from the kept log-sum-exp. The first works on the transposed S^T = K
// Q^T, which leaves P^T and dS^T in registers in the form of a left operand.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_sequence.cuh"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/elements.cuh"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

/// Rows of a streamed tile: what registers allow beside the accumulators.
template <int kWidth>
constexpr int kStreamed = kWidth <= 64 ? 64 : 32;

/// Two own tiles, two pairs of streamed ones, and three numbers for each streamed row.
template <int kWidth>
constexpr int SharedBytes() {
  return (2 * kOwnRows + 4 * kStreamed<kWidth>)*kWidth * 2 +
         2 * 3 * kStreamed<kWidth> * 4;
}

/// Shared memory of a block of either kernel.
template <int kWidth>
struct Shared {
  static constexpr int kRows = kStreamed<kWidth>;
  __device__ explicit Shared(unsigned char* memory)
      : tiles(reinterpret_cast<__nv_bfloat16*>(memory)),
        numbers(reinterpret_cast<float*>(tiles + (2 * kOwnRows + 4 * kRows) * kWidth)) {
  }

  /// The tile of the own rows: 0 or 1.
  __device__ Tile<kWidth> Own(int which) const {
    return Tile<kWidth>(tiles + which * kOwnRows * kWidth);
  }
  /// The streamed tile 0 or 1 of one of the two stages.
  __device__ Tile<kWidth> Streamed(int stage, int which) const {
    return Tile<kWidth>(tiles + (2 * kOwnRows + (stage * 2 + which) * kRows) * kWidth);
  }
  __device__ float* LogSumExp(int stage) const { return numbers + stage * 3 * kRows; }
  __device__ float* Delta(int stage) const { return LogSumExp(stage) + kRows; }
  __device__ int32_t* Documents(int stage) const {
    return reinterpret_cast<int32_t*>(LogSumExp(stage) + 2 * kRows);
  }

  __nv_bfloat16* tiles;
  float* numbers;
};

/// dK and dV of 64 keys of one key head, over the queries of all heads of its group.
template <int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    KeyKernel(AttentionBackward op, const float* delta) {
  constexpr int kRows = kStreamed<kWidth>;
  extern __shared__ __align__(16) unsigned char memory[];
  const Shared<kWidth> shared(memory);
  const Sequence sequence(op);
  const int first_key = blockIdx.x * kOwnRows;
  const int kv_head = blockIdx.y;
  const int group = static_cast<int>(op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;

  const DocumentSpan span =
      SpanOfDocuments(sequence.documents, first_key, sequence.length, first_key);
  const int first_tile = first_key / kRows;
  const int tile_count = span.last / kRows - first_tile + 1;
  const auto load = [&](int step) {  // one tile of queries of one head of the group
    const int head = kv_head * group + step / tile_count;
    const int query = (first_tile + step % tile_count) * kRows;
    const int stage = step % 2;
    StartLoad<kRows>(shared.Streamed(stage, 0),
                     sequence.Rows(op.query, op.row_stride, head), query);
    StartLoad<kRows>(shared.Streamed(stage, 1),
                     sequence.Rows(op.output_gradient, output_stride, head), query);
    StartLoadNumbers<kRows>(shared.LogSumExp(stage),
                            sequence.Numbers(op.log_sum_exp, head), query,
                            sequence.length);
    StartLoadNumbers<kRows>(shared.Delta(stage), sequence.Numbers(delta, head), query,
                            sequence.length);
    StartLoadNumbers<kRows>(shared.Documents(stage), sequence.documents, query,
                            sequence.length);
    CommitCopies();
  };

  StartLoad<kOwnRows>(shared.Own(0), sequence.Rows(op.key, op.row_stride, kv_head),
                      first_key);
  StartLoad<kOwnRows>(shared.Own(1), sequence.Rows(op.value, op.row_stride, kv_head),
                      first_key);
  load(0);
  const int own_row = threadIdx.x / 32 * kWarpRows;
  const int key = first_key + own_row + LanePlace::row();
  const int key_documents[2] = {
      key < sequence.length ? sequence.documents[key] : -1,
      key + 8 < sequence.length ? sequence.documents[key + 8] : -1};
  const float factor = op.scale * kLog2E;
  float key_gradient[kWidth / 8][4] = {};
  float value_gradient[kWidth / 8][4] = {};
  const int step_count = group * tile_count;
  for (int step = 0; step < step_count; ++step) {
    const int stage = step % 2;
    if (step + 1 < step_count) {
      load(step + 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();  // this step's tiles are there
    const int first_query = (first_tile + step % tile_count) * kRows;
    const bool masked = !span.uniform || first_query < first_key + kOwnRows ||
                        first_query + kRows > sequence.length;
    float weights[kRows / 8][4];  // P^T
    MultiplyTransposed<kRows>(weights, shared.Own(0), own_row,
                              shared.Streamed(stage, 0));
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + LanePlace::column() + i % 2;
        const int query = first_query + column;
        const float log_sum_exp = shared.LogSumExp(stage)[column] * kLog2E;
        weights[n][i] = Exp2(weights[n][i] * factor - log_sum_exp);
        if (masked && (query < key + i / 2 * 8 || query >= sequence.length ||
                       shared.Documents(stage)[column] != key_documents[i / 2])) {
          weights[n][i] = 0.0f;
        }
      }
    }
    AccumulateWeighted<kRows>(value_gradient, weights, shared.Streamed(stage, 1));
    float slopes[kRows / 8][4];  // dP^T, then dS^T without the scale
    MultiplyTransposed<kRows>(slopes, shared.Own(1), own_row,
                              shared.Streamed(stage, 1));
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + LanePlace::column() + i % 2;
        slopes[n][i] = weights[n][i] * (slopes[n][i] - shared.Delta(stage)[column]);
      }
    }
    AccumulateWeighted<kRows>(key_gradient, slopes, shared.Streamed(stage, 0));
    __syncthreads();  // nobody reads this stage any more
  }
  StoreRows<kWidth>(sequence.Target(op.key_gradient, op.row_stride, kv_head),
                    op.row_stride, first_key + own_row, sequence.length,
                    sequence.head_dim, key_gradient, op.scale, op.scale);
  StoreRows<kWidth>(sequence.Target(op.value_gradient, op.row_stride, kv_head),
                    op.row_stride, first_key + own_row, sequence.length,
                    sequence.head_dim, value_gradient, 1.0f, 1.0f);
}

/// dQ of 64 queries of one head. Late queries see the most keys and start first.
template <int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    QueryKernel(AttentionBackward op, const float* delta) {
  constexpr int kRows = kStreamed<kWidth>;
  extern __shared__ __align__(16) unsigned char memory[];
  const Shared<kWidth> shared(memory);
  const Sequence sequence(op);
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kOwnRows;
  const int head = blockIdx.y;
  const int kv_head = head / static_cast<int>(op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;
  const HeadRows keys = sequence.Rows(op.key, op.row_stride, kv_head);
  const HeadRows values = sequence.Rows(op.value, op.row_stride, kv_head);

  const int end = min(first_query + kOwnRows, sequence.length);
  const DocumentSpan span = SpanOfDocuments(sequence.documents, 0, end, first_query);
  const int first_tile = span.first / kRows;
  const int tile_end = (end + kRows - 1) / kRows;
  const auto load = [&](int tile) {
    const int stage = tile % 2;
    StartLoad<kRows>(shared.Streamed(stage, 0), keys, tile * kRows);
    StartLoad<kRows>(shared.Streamed(stage, 1), values, tile * kRows);
    StartLoadNumbers<kRows>(shared.Documents(stage), sequence.documents, tile * kRows,
                            sequence.length);
    CommitCopies();
  };

  StartLoad<kOwnRows>(shared.Own(0), sequence.Rows(op.query, op.row_stride, head),
                      first_query);
  StartLoad<kOwnRows>(shared.Own(1),
                      sequence.Rows(op.output_gradient, output_stride, head),
                      first_query);
  load(first_tile);
  const int own_row = threadIdx.x / 32 * kWarpRows;
  const int query = first_query + own_row + LanePlace::row();
  int query_documents[2];
  float log_sum_exp[2];
  float row_delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = query + half * 8;
    const bool valid = row < sequence.length;
    query_documents[half] = valid ? sequence.documents[row] : -1;
    log_sum_exp[half] =
        valid ? sequence.Numbers(op.log_sum_exp, head)[row] * kLog2E : 0.0f;
    row_delta[half] = valid ? sequence.Numbers(delta, head)[row] : 0.0f;
  }
  const float factor = op.scale * kLog2E;
  float query_gradient[kWidth / 8][4] = {};
  for (int tile = first_tile; tile < tile_end; ++tile) {
    const int stage = tile % 2;
    if (tile + 1 < tile_end) {
      load(tile + 1);
      WaitForCopies<1>();
    } else {
      WaitForCopies<0>();
    }
    __syncthreads();  // this step's tiles are there
    const bool masked = !span.uniform || (tile + 1) * kRows > first_query;
    float weights[kRows / 8][4];  // P
    float slopes[kRows / 8][4];   // dP, then dS without the scale
    MultiplyTransposed<kRows>(weights, shared.Own(0), own_row,
                              shared.Streamed(stage, 0));
    MultiplyTransposed<kRows>(slopes, shared.Own(1), own_row,
                              shared.Streamed(stage, 1));
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + LanePlace::column() + i % 2;
        const float weight = Exp2(weights[n][i] * factor - log_sum_exp[i / 2]);
        const bool hidden =
            masked && (tile * kRows + column > query + i / 2 * 8 ||
                       shared.Documents(stage)[column] != query_documents[i / 2]);
        slopes[n][i] = hidden ? 0.0f : weight * (slopes[n][i] - row_delta[i / 2]);
      }
    }
    AccumulateWeighted<kRows>(query_gradient, slopes, shared.Streamed(stage, 0));
    __syncthreads();  // nobody reads this stage any more
  }
  StoreRows<kWidth>(sequence.Target(op.query_gradient, op.row_stride, head),
                    op.row_stride, first_query + own_row, sequence.length,
                    sequence.head_dim, query_gradient, op.scale, op.scale);
}

template <int kWidth>
absl::Status LaunchWidth(cudaStream_t stream, const AttentionBackward& op) {
  float* const delta = reinterpret_cast<float*>(op.workspace);
  STRATA_RETURN_IF_ERROR(LaunchDelta(stream, op, delta));
  constexpr int kBytes = SharedBytes<kWidth>();
  for (const auto kernel : {KeyKernel<kWidth>, QueryKernel<kWidth>}) {
    STRATA_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kBytes),
        "AttentionBackward: shared memory");
  }
  const unsigned tiles = BlockCount(op.length, kOwnRows);
  const unsigned sequences = static_cast<unsigned>(op.sequences);
  const dim3 key_grid(tiles, static_cast<unsigned>(op.kv_heads), sequences);
  KeyKernel<kWidth><<<key_grid, kAttentionThreads, kBytes, stream>>>(op, delta);
  STRATA_RETURN_IF_ERROR(LaunchStatus("AttentionBackward, keys"));
  const dim3 query_grid(tiles, static_cast<unsigned>(op.heads), sequences);
  QueryKernel<kWidth><<<query_grid, kAttentionThreads, kBytes, stream>>>(op, delta);
  return LaunchStatus("AttentionBackward, queries");
}

}  // namespace

absl::Status LaunchTensorCore(cudaStream_t stream, const AttentionBackward& op) {
  return op.head_dim <= 64 ? LaunchWidth<64>(stream, op) : LaunchWidth<128>(stream, op);
}

}  // namespace strata::cuda
