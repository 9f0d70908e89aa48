// Attention in plain fp32 arithmetic, for what the tensor-core form does not take:
// fp32, odd strides, wide heads. Correct and deterministic at any even head_dim up to
// 256; some twenty times slower.
//
// A warp owns one row (a query; in KeyKernel a key) and a block streams tiles of 32
// rows of the other side through shared memory: lane i scores row i of the tile, and
// then each lane adds up the columns lane, lane + 32, ... of the weighted rows.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
constexpr int kTileRows = kWarp;
constexpr int kHeadDimMax = 256;
constexpr int kColumns = kHeadDimMax / kWarp;  // of a lane

/// One head of one sequence in global memory.
template <typename T>
struct Head {
  T* data;
  int64_t row_stride;
};
template <typename T>
__device__ Head<const T> HeadOf(const void* data, int64_t first_row, int64_t row_stride,
                                int64_t head, int64_t head_dim) {
  return {static_cast<const T*>(data) + first_row * row_stride + head * head_dim,
          row_stride};
}
template <typename T>
__device__ Head<T> HeadOf(void* data, int64_t first_row, int64_t row_stride,
                          int64_t head, int64_t head_dim) {
  return {static_cast<T*>(data) + first_row * row_stride + head * head_dim, row_stride};
}

/// fp32 rows in shared memory, one float apart so that lanes reading a column of 32
/// rows hit 32 banks.
struct Rows {
  float* data;
  int head_dim;
  __device__ float* operator[](int row) const { return data + row * (head_dim + 1); }
  static int64_t Bytes(int64_t count, int64_t head_dim) {
    return count * (head_dim + 1) * 4;
  }

  /// Loads kCount rows from `first_row` on, zero from `length` on. The whole block
  /// calls.
  template <int kCount, typename T>
  __device__ void Load(Head<const T> head, int first_row, int length) const {
    for (int i = threadIdx.x; i < kCount * head_dim; i += kThreads) {
      const int row = i / head_dim;
      const int column = i - row * head_dim;
      const int64_t from = first_row + row;
      (*this)[row][column] =
          from < length ? ToFloat(head.data[from * head.row_stride + column]) : 0.0f;
    }
  }
};

__device__ float Dot(const float* a, const float* b, int count) {
  float sum = 0.0f;
  for (int i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// The columns of one row that a lane adds up.
struct LaneColumns {
  float values[kColumns] = {};

  __device__ void Scale(float factor) {
#pragma unroll
    for (int i = 0; i < kColumns; ++i) values[i] *= factor;
  }
  /// += sum over the tile's rows of (the weight in lane `row`) * row
  __device__ void AddWeighted(const Rows& tile, float weight) {
    const int lane = threadIdx.x % kWarp;
    for (int row = 0; row < kTileRows; ++row) {
      const float row_weight = __shfl_sync(kAllLanes, weight, row);
#pragma unroll
      for (int i = 0; i < kColumns; ++i) {
        const int column = lane + i * kWarp;
        if (column < tile.head_dim) values[i] += row_weight * tile[row][column];
      }
    }
  }
  template <typename T>
  __device__ void Store(Head<T> target, int64_t row, int head_dim, float factor) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      const int column = lane + i * kWarp;
      if (column >= head_dim) continue;
      target.data[row * target.row_stride + column] = FromFloat<T>(values[i] * factor);
    }
  }
};

/// What the three kernels have in common: the block's sequence and tiles.
struct Block {
  template <typename Op>
  __device__ Block(const Op& op, float* memory)
      : length(static_cast<int>(op.length)),
        head_dim(static_cast<int>(op.head_dim)),
        first_row(blockIdx.z * op.length),
        rows(op.sequences * op.length),
        documents(op.documents + first_row),
        tile{memory, head_dim},
        own{memory + kTileRows * (head_dim + 1), head_dim},
        own_too{memory + (kTileRows + kWarps) * (head_dim + 1), head_dim},
        warp(threadIdx.x / kWarp),
        lane(threadIdx.x % kWarp) {}

  static int64_t SharedBytes(int64_t head_dim) {
    return Rows::Bytes(kTileRows + 2 * kWarps, head_dim);
  }
  /// Whether `query` may see `key`, both rows of the sequence.
  __device__ bool Sees(int query, int key) const {
    return key <= query && query < length && documents[key] == documents[query];
  }
  template <typename T>
  __device__ void LoadTile(Head<const T> head, int first) const {
    __syncthreads();  // the tile before is no longer read
    tile.Load<kTileRows>(head, first, length);
    __syncthreads();
  }

  int length, head_dim;
  int64_t first_row, rows;
  const int32_t* documents;
  Rows tile;     // [kTileRows]
  Rows own;      // [kWarps]: one per warp
  Rows own_too;  // [kWarps]
  int warp, lane;
};

template <typename T>
__global__ void __launch_bounds__(kThreads) ForwardKernel(AttentionForward op) {
  extern __shared__ float memory[];
  const Block block(op, memory);
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kWarps;
  const int query = first_query + block.warp;
  const int head = blockIdx.y;
  const int64_t kv_head = head / (op.heads / op.kv_heads);
  const auto keys =
      HeadOf<T>(op.key, block.first_row, op.row_stride, kv_head, op.head_dim);
  const auto values =
      HeadOf<T>(op.value, block.first_row, op.row_stride, kv_head, op.head_dim);
  block.own.Load<kWarps>(
      HeadOf<T>(op.query, block.first_row, op.row_stride, head, op.head_dim),
      first_query, block.length);

  float max = -INFINITY;
  float sum = 0.0f;
  LaneColumns output;
  const int end = min(first_query + kWarps, block.length);
  for (int first = 0; first < end; first += kTileRows) {
    block.LoadTile(keys, first);
    float score = -INFINITY;
    if (block.Sees(query, first + block.lane)) {
      score =
          op.scale * Dot(block.own[block.warp], block.tile[block.lane], block.head_dim);
    }
    const float largest = fmaxf(max, ReduceLanes(score, MaxOperation()));
    const float base = largest == -INFINITY ? 0.0f : largest;
    const float weight = expf(score - base);
    const float shrink = expf(max - base);
    sum = sum * shrink + ReduceLanes(weight, PlusOperation());
    max = largest;
    block.LoadTile(values, first);
    output.Scale(shrink);
    output.AddWeighted(block.tile, weight);
  }
  if (query >= block.length) return;
  output.Store(
      HeadOf<T>(op.output, block.first_row, op.heads * op.head_dim, head, op.head_dim),
      query, block.head_dim, 1.0f / sum);
  if (block.lane == 0) {
    op.log_sum_exp[head * block.rows + block.first_row + query] = max + logf(sum);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    QueryKernel(AttentionBackward op, const float* delta) {
  extern __shared__ float memory[];
  const Block block(op, memory);
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kWarps;
  const int query = first_query + block.warp;
  const int head = blockIdx.y;
  const int64_t kv_head = head / (op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;
  const auto keys =
      HeadOf<T>(op.key, block.first_row, op.row_stride, kv_head, op.head_dim);
  const auto values =
      HeadOf<T>(op.value, block.first_row, op.row_stride, kv_head, op.head_dim);
  block.own.Load<kWarps>(
      HeadOf<T>(op.query, block.first_row, op.row_stride, head, op.head_dim),
      first_query, block.length);
  block.own_too.Load<kWarps>(
      HeadOf<T>(op.output_gradient, block.first_row, output_stride, head, op.head_dim),
      first_query, block.length);
  const int64_t number =
      head * block.rows + block.first_row + min(query, block.length - 1);
  const float log_sum_exp = op.log_sum_exp[number];
  const float row_delta = delta[number];

  LaneColumns gradient;
  const int end = min(first_query + kWarps, block.length);
  for (int first = 0; first < end; first += kTileRows) {
    const bool sees = block.Sees(query, first + block.lane);
    block.LoadTile(values, first);
    const float slope =
        Dot(block.own_too[block.warp], block.tile[block.lane], block.head_dim);
    block.LoadTile(keys, first);
    const float score =
        op.scale * Dot(block.own[block.warp], block.tile[block.lane], block.head_dim);
    const float weight = sees ? expf(score - log_sum_exp) : 0.0f;
    gradient.AddWeighted(block.tile, weight * (slope - row_delta));
  }
  if (query >= block.length) return;
  gradient.Store(
      HeadOf<T>(op.query_gradient, block.first_row, op.row_stride, head, op.head_dim),
      query, block.head_dim, op.scale);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    KeyKernel(AttentionBackward op, const float* delta) {
  extern __shared__ float memory[];
  const Block block(op, memory);
  const int first_key = blockIdx.x * kWarps;
  const int key = first_key + block.warp;
  const int kv_head = blockIdx.y;
  const int group = static_cast<int>(op.heads / op.kv_heads);
  const int64_t output_stride = op.heads * op.head_dim;
  block.own.Load<kWarps>(
      HeadOf<T>(op.key, block.first_row, op.row_stride, kv_head, op.head_dim),
      first_key, block.length);
  block.own_too.Load<kWarps>(
      HeadOf<T>(op.value, block.first_row, op.row_stride, kv_head, op.head_dim),
      first_key, block.length);

  LaneColumns key_gradient, value_gradient;
  for (int head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const auto queries =
        HeadOf<T>(op.query, block.first_row, op.row_stride, head, op.head_dim);
    const auto gradients = HeadOf<T>(op.output_gradient, block.first_row, output_stride,
                                     head, op.head_dim);
    const int64_t numbers = head * block.rows + block.first_row;
    for (int first = first_key / kTileRows * kTileRows; first < block.length;
         first += kTileRows) {
      const int query = first + block.lane;
      const bool sees = key < block.length && block.Sees(query, key);
      block.LoadTile(queries, first);
      const float score =
          op.scale * Dot(block.own[block.warp], block.tile[block.lane], block.head_dim);
      const float weight = sees ? expf(score - op.log_sum_exp[numbers + query]) : 0.0f;
      block.LoadTile(gradients, first);
      const float slope =
          Dot(block.own_too[block.warp], block.tile[block.lane], block.head_dim);
      value_gradient.AddWeighted(block.tile, weight);
      block.LoadTile(queries, first);
      const float row_delta = sees ? delta[numbers + query] : 0.0f;
      key_gradient.AddWeighted(block.tile, weight * (slope - row_delta));
    }
  }
  if (key >= block.length) return;
  key_gradient.Store(
      HeadOf<T>(op.key_gradient, block.first_row, op.row_stride, kv_head, op.head_dim),
      key, block.head_dim, op.scale);
  value_gradient.Store(HeadOf<T>(op.value_gradient, block.first_row, op.row_stride,
                                 kv_head, op.head_dim),
                       key, block.head_dim, 1.0f);
}

template <typename Op>
dim3 GridOf(const Op& op, int64_t heads) {
  return dim3(BlockCount(op.length, kWarps), static_cast<unsigned>(heads),
              static_cast<unsigned>(op.sequences));
}

}  // namespace

absl::Status LaunchPlain(cudaStream_t stream, const AttentionForward& op) {
  const int64_t bytes = Block::SharedBytes(op.head_dim);
  return ForDType(op.dtype, [&](auto element) {
    const auto kernel = ForwardKernel<decltype(element)>;
    STRATA_CUDA_RETURN_IF_ERROR(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(Block::SharedBytes(kHeadDimMax))),
        "AttentionForward: shared memory");
    kernel<<<GridOf(op, op.heads), kThreads, bytes, stream>>>(op);
    return LaunchStatus("AttentionForward");
  });
}

absl::Status LaunchPlain(cudaStream_t stream, const AttentionBackward& op) {
  float* const delta = reinterpret_cast<float*>(op.workspace);
  STRATA_RETURN_IF_ERROR(LaunchDelta(stream, op, delta));
  const int64_t bytes = Block::SharedBytes(op.head_dim);
  return ForDType(op.dtype, [&](auto element) {
    const auto key_kernel = KeyKernel<decltype(element)>;
    const auto query_kernel = QueryKernel<decltype(element)>;
    for (const auto kernel : {key_kernel, query_kernel}) {
      STRATA_CUDA_RETURN_IF_ERROR(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(Block::SharedBytes(kHeadDimMax))),
          "AttentionBackward: shared memory");
    }
    key_kernel<<<GridOf(op, op.kv_heads), kThreads, bytes, stream>>>(op, delta);
    STRATA_RETURN_IF_ERROR(LaunchStatus("AttentionBackward, keys"));
    query_kernel<<<GridOf(op, op.heads), kThreads, bytes, stream>>>(op, delta);
    return LaunchStatus("AttentionBackward, queries");
  });
}

}  // namespace strata::cuda
