// The two kernels of attention_backward_mma.cu, which has the formulas, for warpgroups.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_sequence.cuh"
#include "kernels/cuda/attention_wgmma.cuh"
#include "kernels/cuda/elements.cuh"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

/// Rows of a streamed tile: what registers allow beside the accumulators, of which the
/// first kernel has two.
template <int kWidth>
constexpr int kStreamedQueries = kWidth <= 64 ? 128 : 64;
constexpr int kStreamedKeys = 128;

/// Two own tiles, two pairs of streamed ones, and three numbers for each streamed row.
template <int kWidth, int kRows>
struct Shared {
  using OwnTile = WideTile<kWideRows, kWidth>;
  using StreamedTile = WideTile<kRows, kWidth>;
  static constexpr int kTileBytes = 2 * OwnTile::kBytes + 4 * StreamedTile::kBytes;
  static constexpr int kBytes = kTileBytes + 2 * 3 * kRows * 4;

  __device__ explicit Shared(unsigned char* memory) : memory(memory) {}
  /// The tile of the own rows: 0 or 1.
  __device__ OwnTile Own(int which) const {
    return OwnTile(memory + which * OwnTile::kBytes);
  }
  /// The streamed tile 0 or 1 of one of the two stages.
  __device__ StreamedTile Streamed(int stage, int which) const {
    return StreamedTile(memory + 2 * OwnTile::kBytes +
                        (stage * 2 + which) * StreamedTile::kBytes);
  }
  __device__ float* LogSumExp(int stage) const {
    return reinterpret_cast<float*>(memory + kTileBytes) + stage * 3 * kRows;
  }
  __device__ float* Delta(int stage) const { return LogSumExp(stage) + kRows; }
  __device__ int32_t* Documents(int stage) const {
    return reinterpret_cast<int32_t*>(LogSumExp(stage) + 2 * kRows);
  }

  unsigned char* memory;
};

/// Waits for the stage whose copies are under way. When all threads have come here,
/// nobody reads the stage before any more, and its copies may start.
__device__ void WaitForStage() {
  WaitForCopies<0>();
  FenceSharedWrites();
  __syncthreads();
}

/// dK and dV of 128 keys of one key head, over the queries of all heads of its group.
template <int kWidth>
__global__ void __launch_bounds__(kWideThreads, 1)
    KeyKernel(AttentionBackward op, const float* delta) {
  constexpr int kRows = kStreamedQueries<kWidth>;
  extern __shared__ __align__(1024) unsigned char memory[];
  const Shared<kWidth, kRows> shared(memory);
  const Sequence sequence(op);
  const int first_key = blockIdx.x * kWideRows;
  const int kv_head = blockIdx.y;
  const int group = static_cast<int>(op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;

  const DocumentSpan span = SpanOfDocuments<kWideRows, kWideThreads>(
      sequence.documents, first_key, sequence.length, first_key);
  const int first_tile = first_key / kRows;
  const int tile_count = span.last / kRows - first_tile + 1;
  const auto load = [&](int step) {  // one tile of queries of one head of the group
    const int head = kv_head * group + step / tile_count;
    const int query = (first_tile + step % tile_count) * kRows;
    const int stage = step % 2;
    StartLoad<kRows, kWideThreads>(shared.Streamed(stage, 0),
                                   sequence.Rows(op.query, op.row_stride, head), query);
    StartLoad<kRows, kWideThreads>(
        shared.Streamed(stage, 1),
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

  StartLoad<kWideRows, kWideThreads>(
      shared.Own(0), sequence.Rows(op.key, op.row_stride, kv_head), first_key);
  StartLoad<kWideRows, kWideThreads>(
      shared.Own(1), sequence.Rows(op.value, op.row_stride, kv_head), first_key);
  load(0);
  const int own_row = threadIdx.x / kWarpgroup * kWarpgroupRows;
  const int key = first_key + threadIdx.x / 32 * kWarpRows + LanePlace::row();
  const int key_documents[2] = {
      key < sequence.length ? sequence.documents[key] : -1,
      key + 8 < sequence.length ? sequence.documents[key + 8] : -1};
  const float factor = op.scale * kLog2E;
  float key_gradient[kWidth / 8][4] = {};
  float value_gradient[kWidth / 8][4] = {};
  const int step_count = group * tile_count;
  for (int step = 0; step < step_count; ++step) {
    const int stage = step % 2;
    WaitForStage();
    if (step + 1 < step_count) load(step + 1);
    float weights[kRows / 8][4];  // P^T
    float slopes[kRows / 8][4];   // dP^T, then dS^T without the scale
    FenceWarpgroup();
    StartTransposed(weights, shared.Own(0), own_row, shared.Streamed(stage, 0));
    CommitWarpgroup();
    StartTransposed(slopes, shared.Own(1), own_row, shared.Streamed(stage, 1));
    CommitWarpgroup();
    WaitForWarpgroup<1>();
    const int first_query = (first_tile + step % tile_count) * kRows;
    const bool masked = !span.uniform || first_query < first_key + kWideRows ||
                        first_query + kRows > sequence.length;
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
    LeftOperands<kRows> weight_operands;
    weight_operands.Take(weights);
    FenceWarpgroup();
    StartWeighted(value_gradient, weight_operands, shared.Streamed(stage, 1));
    CommitWarpgroup();
    WaitForWarpgroup<1>();  // the slopes
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + LanePlace::column() + i % 2;
        slopes[n][i] = weights[n][i] * (slopes[n][i] - shared.Delta(stage)[column]);
      }
    }
    LeftOperands<kRows> slope_operands;
    slope_operands.Take(slopes);
    FenceWarpgroup();
    StartWeighted(key_gradient, slope_operands, shared.Streamed(stage, 0));
    CommitWarpgroup();
    WaitForWarpgroup<0>();
  }
  const int first_row = first_key + threadIdx.x / 32 * kWarpRows;
  StoreRows<kWidth>(sequence.Target(op.key_gradient, op.row_stride, kv_head),
                    op.row_stride, first_row, sequence.length, sequence.head_dim,
                    key_gradient, op.scale, op.scale);
  StoreRows<kWidth>(sequence.Target(op.value_gradient, op.row_stride, kv_head),
                    op.row_stride, first_row, sequence.length, sequence.head_dim,
                    value_gradient, 1.0f, 1.0f);
}

/// dQ of 128 queries of one head. Late queries see the most keys and start first.
template <int kWidth>
__global__ void __launch_bounds__(kWideThreads, 1)
    QueryKernel(AttentionBackward op, const float* delta) {
  constexpr int kRows = kStreamedKeys;
  extern __shared__ __align__(1024) unsigned char memory[];
  const Shared<kWidth, kRows> shared(memory);
  const Sequence sequence(op);
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kWideRows;
  const int head = blockIdx.y;
  const int kv_head = head / static_cast<int>(op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;
  const HeadRows keys = sequence.Rows(op.key, op.row_stride, kv_head);
  const HeadRows values = sequence.Rows(op.value, op.row_stride, kv_head);

  const int end = min(first_query + kWideRows, sequence.length);
  const DocumentSpan span =
      SpanOfDocuments<kWideRows, kWideThreads>(sequence.documents, 0, end, first_query);
  const int tile_end = (end + kRows - 1) / kRows;
  const auto load = [&](int tile) {
    const int stage = tile % 2;
    StartLoad<kRows, kWideThreads>(shared.Streamed(stage, 0), keys, tile * kRows);
    StartLoad<kRows, kWideThreads>(shared.Streamed(stage, 1), values, tile * kRows);
    StartLoadNumbers<kRows>(shared.Documents(stage), sequence.documents, tile * kRows,
                            sequence.length);
    CommitCopies();
  };

  StartLoad<kWideRows, kWideThreads>(
      shared.Own(0), sequence.Rows(op.query, op.row_stride, head), first_query);
  StartLoad<kWideRows, kWideThreads>(
      shared.Own(1), sequence.Rows(op.output_gradient, output_stride, head),
      first_query);
  int tile = span.first / kRows;
  load(tile);
  const int own_row = threadIdx.x / kWarpgroup * kWarpgroupRows;
  const int query = first_query + threadIdx.x / 32 * kWarpRows + LanePlace::row();
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
  for (; tile < tile_end; ++tile) {
    const int stage = tile % 2;
    WaitForStage();
    if (tile + 1 < tile_end) load(tile + 1);
    const bool masked = !span.uniform || (tile + 1) * kRows > first_query;
    float weights[kRows / 8][4];  // P
    float slopes[kRows / 8][4];   // dP, then dS without the scale
    FenceWarpgroup();
    StartTransposed(weights, shared.Own(0), own_row, shared.Streamed(stage, 0));
    CommitWarpgroup();
    StartTransposed(slopes, shared.Own(1), own_row, shared.Streamed(stage, 1));
    CommitWarpgroup();
    WaitForWarpgroup<1>();
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = n * 8 + LanePlace::column() + i % 2;
        weights[n][i] = Exp2(weights[n][i] * factor - log_sum_exp[i / 2]);
        if (masked && (tile * kRows + column > query + i / 2 * 8 ||
                       shared.Documents(stage)[column] != query_documents[i / 2])) {
          weights[n][i] = 0.0f;
        }
      }
    }
    WaitForWarpgroup<0>();
#pragma unroll
    for (int n = 0; n < kRows / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        slopes[n][i] = weights[n][i] * (slopes[n][i] - row_delta[i / 2]);
      }
    }
    LeftOperands<kRows> slope_operands;
    slope_operands.Take(slopes);
    FenceWarpgroup();
    StartWeighted(query_gradient, slope_operands, shared.Streamed(stage, 0));
    CommitWarpgroup();
    WaitForWarpgroup<0>();
  }
  StoreRows<kWidth>(sequence.Target(op.query_gradient, op.row_stride, head),
                    op.row_stride, first_query + threadIdx.x / 32 * kWarpRows,
                    sequence.length, sequence.head_dim, query_gradient, op.scale,
                    op.scale);
}

template <int kWidth>
absl::Status LaunchWidth(cudaStream_t stream, const AttentionBackward& op) {
  float* const delta = reinterpret_cast<float*>(op.workspace);
  STRATA_RETURN_IF_ERROR(LaunchDelta(stream, op, delta));
  constexpr int kKeyBytes = Shared<kWidth, kStreamedQueries<kWidth>>::kBytes;
  constexpr int kQueryBytes = Shared<kWidth, kStreamedKeys>::kBytes;
  constexpr auto kAttribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  constexpr absl::string_view kContext = "AttentionBackward: shared memory";
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(KeyKernel<kWidth>, kAttribute, kKeyBytes), kContext);
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(QueryKernel<kWidth>, kAttribute, kQueryBytes), kContext);
  const unsigned tiles = BlockCount(op.length, kWideRows);
  const unsigned sequences = static_cast<unsigned>(op.sequences);
  const dim3 key_grid(tiles, static_cast<unsigned>(op.kv_heads), sequences);
  KeyKernel<kWidth><<<key_grid, kWideThreads, kKeyBytes, stream>>>(op, delta);
  STRATA_RETURN_IF_ERROR(LaunchStatus("AttentionBackward, keys"));
  const dim3 query_grid(tiles, static_cast<unsigned>(op.heads), sequences);
  QueryKernel<kWidth><<<query_grid, kWideThreads, kQueryBytes, stream>>>(op, delta);
  return LaunchStatus("AttentionBackward, queries");
}

}  // namespace

absl::Status LaunchWarpgroup(cudaStream_t stream, const AttentionBackward& op) {
  return op.head_dim <= 64 ? LaunchWidth<64>(stream, op) : LaunchWidth<128>(stream, op);
}

}  // namespace strata::cuda
