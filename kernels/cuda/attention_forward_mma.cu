#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_softmax.cuh"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/reduce.cuh"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

constexpr int kKeys = 64;  // of a streamed tile
static_assert(kKeys == kOwnRows);

/// Q, K and V tiles, and the documents of the keys.
template <int kWidth>
constexpr int SharedBytes() {
  return 3 * kKeys * kWidth * 2 + kKeys * 4;
}

/// A block computes 64 queries of one head of one sequence. Late queries see the most
/// keys and start first.
template <int kWidth>
__global__ void __launch_bounds__(kAttentionThreads)
    ForwardKernel(AttentionForward op) {
  extern __shared__ __align__(16) unsigned char shared[];
  __nv_bfloat16* const tiles = reinterpret_cast<__nv_bfloat16*>(shared);
  const Tile<kWidth> query_tile(tiles);
  const Tile<kWidth> key_tile(tiles + kKeys * kWidth);
  const Tile<kWidth> value_tile(tiles + 2 * kKeys * kWidth);
  int32_t* const key_documents = reinterpret_cast<int32_t*>(tiles + 3 * kKeys * kWidth);

  const int first_query = (gridDim.x - 1 - blockIdx.x) * kOwnRows;
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
  const auto load_keys = [&](int tile) {
    StartLoad<kKeys>(key_tile, keys, tile * kKeys);
    if (threadIdx.x < kKeys) {
      const int key = tile * kKeys + threadIdx.x;
      CopyAsync4(key_documents + threadIdx.x, documents + (key < length ? key : 0),
                 key < length);
    }
    CommitCopies();
  };

  const int end = min(first_query + kOwnRows, length);
  const DocumentSpan span = SpanOfDocuments(documents, 0, end, first_query);
  const int own_row = threadIdx.x / 32 * kWarpRows;
  const int query = first_query + own_row + LanePlace::row();
  const int query_documents[2] = {query < length ? documents[query] : -1,
                                  query + 8 < length ? documents[query + 8] : -1};
  StartLoad<kOwnRows>(query_tile, rows_of(op.query, head), first_query);
  int tile = span.first / kKeys;
  load_keys(tile);
  WaitForCopies<0>();
  __syncthreads();

  const float factor = op.scale * kLog2E;
  const int last_tile = first_query / kKeys;
  RunningSoftmax<kKeys> softmax;
  float output[kWidth / 8][4] = {};
  for (; tile <= last_tile; ++tile) {
    StartLoad<kKeys>(value_tile, values, tile * kKeys);
    CommitCopies();
    float scores[kKeys / 8][4];
    MultiplyTransposed<kKeys>(scores, query_tile, own_row, key_tile);
    if (tile == last_tile || !span.uniform) {
      MaskScores<kKeys>(scores, query, tile * kKeys, query_documents, key_documents);
    }
    WaitForCopies<0>();
    __syncthreads();  // the values are there, and nobody reads the keys any more
    if (tile < last_tile) load_keys(tile + 1);
    float shrink[2];
    softmax.Update(scores, factor, shrink);
#pragma unroll
    for (int n = 0; n < kWidth / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) output[n][i] *= shrink[i / 2];
    }
    AccumulateWeighted<kKeys>(output, scores, value_tile);
    WaitForCopies<0>();
    __syncthreads();  // the next keys are there, and nobody reads the values any more
  }

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
                    output_stride, first_query + own_row, length, head_dim, output,
                    inverse[0], inverse[1]);
}

template <int kWidth>
absl::Status LaunchWidth(cudaStream_t stream, const AttentionForward& op) {
  constexpr int kBytes = SharedBytes<kWidth>();
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaFuncSetAttribute(ForwardKernel<kWidth>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
      "AttentionForward: shared memory");
  const dim3 grid(BlockCount(op.length, kOwnRows), static_cast<unsigned>(op.heads),
                  static_cast<unsigned>(op.sequences));
  ForwardKernel<kWidth><<<grid, kAttentionThreads, kBytes, stream>>>(op);
  return LaunchStatus("AttentionForward");
}

}  // namespace

absl::Status LaunchTensorCore(cudaStream_t stream, const AttentionForward& op) {
  return op.head_dim <= 64 ? LaunchWidth<64>(stream, op) : LaunchWidth<128>(stream, op);
}

}  // namespace strata::cuda
