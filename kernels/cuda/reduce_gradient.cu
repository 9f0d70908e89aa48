#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

/// One block per tile. Which elements a thread squares, and the tree over the threads,
/// depend on nothing but the element's place in its tile; a short last tile is as if it
/// were filled up with zeros.
template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads) ReduceGradientKernel(ReduceGradient op) {
  constexpr int kPacks = kTileElements / (kThreads * kPackElements);
  static_assert(kPacks * kThreads * kPackElements == kTileElements);
  const int64_t tile = static_cast<int64_t>(blockIdx.x) * kTileElements;
  float squares = 0.0f;
#pragma unroll
  for (int pack = 0; pack < kPacks; ++pack) {
    const int64_t first = tile + (pack * kThreads + threadIdx.x) * kPackElements;
#pragma unroll
    for (int64_t at = first; at < first + kPackElements; at += kElements) {
      if (at >= op.count) continue;
      const Pack<float, kElements> a = LoadPack<kElements>(op.a + at);
      Pack<float, kElements> b = {};
      if (op.b != nullptr) b = LoadPack<kElements>(op.b + at);
      Pack<T, kElements> rounded;
#pragma unroll
      for (int i = 0; i < kElements; ++i) {
        rounded.values[i] = FromFloat<T>(a.values[i] + b.values[i]);
        const float value = ToFloat(rounded.values[i]);
        squares += value * value;
      }
      StorePack<kElements>(static_cast<T*>(op.gradient) + at, rounded);
    }
  }
  const float sum = ReduceBlock<kThreads>(squares, PlusOperation());
  if (threadIdx.x == 0) op.tile_sums[blockIdx.x] = sum;
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const ReduceGradient& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.gradient, op.a, op.b}, {op.count});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    ReduceGradientKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.count, kTileElements), kThreads, 0, stream>>>(op);
    return LaunchStatus("ReduceGradient");
  });
}

}  // namespace strata::cuda
