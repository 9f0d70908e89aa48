// Flash attention as attention_forward_mma.cu has it, for warpgroups. The product with
// the values of one tile runs under the softmax of the next.

#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/attention_wgmma.cuh"
#include "kernels/cuda/elements.cuh"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

constexpr int kKeys = 128;  // of a streamed tile
static_assert(kKeys == kWideRows);

/// The queries, two tiles each of keys and values, and the documents of the keys.
template <int kWidth>
struct Shared {
  using KeyTile = WideTile<kKeys, kWidth>;
  static constexpr int kBytes = 5 * KeyTile::kBytes + 2 * kKeys * 4;

  __device__ explicit Shared(unsigned char* memory) : memory(memory) {}
  __device__ KeyTile Queries() const { return KeyTile(memory); }
  __device__ KeyTile Keys(int tile) const {
    return KeyTile(memory + (1 + tile % 2) * KeyTile::kBytes);
  }
  __device__ KeyTile Values(int tile) const {
    return KeyTile(memory + (3 + tile % 2) * KeyTile::kBytes);
  }
  __device__ int32_t* Documents(int tile) const {
    return reinterpret_cast<int32_t*>(memory + 5 * KeyTile::kBytes) + tile % 2 * kKeys;
  }

  unsigned char* memory;
};

/// A block computes 128 queries of one head of one sequence. Late queries see the most
/// keys and start first.
template <int kWidth>
__global__ void __launch_bounds__(kWideThreads, 1) ForwardKernel(AttentionForward op) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const Shared<kWidth> shared(memory);
  const int first_query = (gridDim.x - 1 - blockIdx.x) * kWideRows;
  const int head = blockIdx.y;
  const int kv_head = head / static_cast<int>(op.heads / op.kv_heads);
  const int length = static_cast<int>(op.length);
  const int head_dim = static_cast<int>(op.head_dim);
  const int64_t sequence_row = blockIdx.z * op.length;
  const int32_t* const documents = op.documents + sequence_row;
  const auto rows_of = [&](const void* data, int at_head) {
    const auto* const first = static_cast<const __nv_bfloat16*>(data);
    return HeadRows{first + sequence_row * op.row_stride + at_head * head_dim,
                    op.row_stride, head_dim, length};
  };
  const HeadRows keys = rows_of(op.key, kv_head);
  const HeadRows values = rows_of(op.value, kv_head);
  const int last_tile = first_query / kKeys;
  // Each is one group of copies, empty beyond the last tile.
  const auto load_keys = [&](int tile) {
    if (tile <= last_tile) {
      StartLoad<kKeys, kWideThreads>(shared.Keys(tile), keys, tile * kKeys);
      if (threadIdx.x < kKeys) {
        const int key = tile * kKeys + threadIdx.x;
        CopyAsync4(shared.Documents(tile) + threadIdx.x,
                   documents + (key < length ? key : 0), key < length);
      }
    }
    CommitCopies();
  };
  const auto load_values = [&](int tile) {
    if (tile <= last_tile) {
      StartLoad<kKeys, kWideThreads>(shared.Values(tile), values, tile * kKeys);
    }
    CommitCopies();
  };

  const int end = min(first_query + kWideRows, length);
  const DocumentSpan span =
      SpanOfDocuments<kWideRows, kWideThreads>(documents, 0, end, first_query);
  const int own_row = threadIdx.x / kWarpgroup * kWarpgroupRows;
  const int query = first_query + threadIdx.x / 32 * kWarpRows + LanePlace::row();
  const int query_documents[2] = {query < length ? documents[query] : -1,
                                  query + 8 < length ? documents[query + 8] : -1};
  int tile = span.first / kKeys;
  StartLoad<kWideRows, kWideThreads>(shared.Queries(), rows_of(op.query, head),
                                     first_query);
  load_keys(tile);
  // Ends the copies that are under way, and then starts those of the next tiles: when
  // all threads have come here, nobody reads what they replace.
  const auto next_tiles = [&](int keys_of, int values_of) {
    WaitForCopies<0>();
    FenceSharedWrites();
    __syncthreads();
    load_keys(keys_of);
    load_values(values_of);
  };

  const float factor = op.scale * kLog2E;
  RunningSoftmax<kKeys> softmax;
  float output[kWidth / 8][4] = {};
  float shrink[2];
  LeftOperands<kKeys> weights;
  const auto make_weights = [&](float(&scores)[kKeys / 8][4]) {
    if (tile == last_tile || !span.uniform) {
      MaskScores<kKeys>(scores, query, tile * kKeys, query_documents,
                        shared.Documents(tile));
    }
    softmax.Update(scores, factor, shrink);
  };
  next_tiles(tile + 1, tile);
  {
    float scores[kKeys / 8][4] = {};
    FenceWarpgroup();
    StartTransposed(scores, shared.Queries(), own_row, shared.Keys(tile));
    CommitWarpgroup();
    WaitForWarpgroup<0>();
    make_weights(scores);
    weights.Take(scores);
  }
  while (tile < last_tile) {
    ++tile;
    next_tiles(tile + 1, tile);
    float scores[kKeys / 8][4] = {};
    FenceWarpgroup();
    StartTransposed(scores, shared.Queries(), own_row, shared.Keys(tile));
    CommitWarpgroup();
    StartWeighted(output, weights, shared.Values(tile - 1));
    CommitWarpgroup();
    WaitForWarpgroup<1>();
    make_weights(scores);  // under the product with the values
    WaitForWarpgroup<0>();
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) output[n][i] *= shrink[i / 2];
    }
    weights.Take(scores);
  }
  next_tiles(tile + 1, tile + 1);  // beyond the last: only waits
  FenceWarpgroup();
  StartWeighted(output, weights, shared.Values(tile));
  CommitWarpgroup();
  WaitForWarpgroup<0>();

  float inverse[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float sum = ReduceLanes<4>(softmax.sum[half], PlusOperation());
    inverse[half] = 1.0f / sum;
    const int row = query + half * 8;
    if (threadIdx.x % 4 == 0 && row < length) {
      op.log_sum_exp[head * op.sequences * op.length + sequence_row + row] =
          softmax.max[half] * op.scale + logf(sum);
    }
  }
  const int64_t output_stride = op.heads * op.head_dim;
  StoreRows<kWidth>(static_cast<__nv_bfloat16*>(op.output) +
                        sequence_row * output_stride + head * head_dim,
                    output_stride, first_query + threadIdx.x / 32 * kWarpRows, length,
                    head_dim, output, inverse[0], inverse[1]);
}

template <int kWidth>
absl::Status LaunchWidth(cudaStream_t stream, const AttentionForward& op) {
  constexpr int kBytes = Shared<kWidth>::kBytes;
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(ForwardKernel<kWidth>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "AttentionForward: shared memory");
  const dim3 grid(BlockCount(op.length, kWideRows), static_cast<unsigned>(op.heads),
                  static_cast<unsigned>(op.sequences));
  ForwardKernel<kWidth><<<grid, kWideThreads, kBytes, stream>>>(op);
  return LaunchStatus("AttentionForward");
}

}  // namespace

absl::Status LaunchWarpgroup(cudaStream_t stream, const AttentionForward& op) {
  return op.head_dim <= 64 ? LaunchWidth<64>(stream, op) : LaunchWidth<128>(stream, op);
}

}  // namespace strata::cuda
