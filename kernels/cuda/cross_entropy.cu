#include <cfloat>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int kThreads = 512;

struct Softmax {
  float max;
  float sum;  // of exp(logit - max)
};

/// In one reading: each thread keeps a maximum of its own and rescales when it grows.
template <int kElements>
__device__ Softmax SoftmaxOfRow(const float* logits, int64_t vocab) {
  float max = -FLT_MAX;
  float sum = 0.0f;
  for (int64_t at = threadIdx.x * kElements; at < vocab; at += kThreads * kElements) {
    const Pack<float, kElements> pack = LoadPack<kElements>(logits + at);
    float pack_max = max;
#pragma unroll
    for (int i = 0; i < kElements; ++i) pack_max = fmaxf(pack_max, pack.values[i]);
    sum *= expf(max - pack_max);
    max = pack_max;
#pragma unroll
    for (int i = 0; i < kElements; ++i) sum += expf(pack.values[i] - max);
  }
  const float row_max = ReduceBlock<kThreads>(max, MaxOperation());
  sum *= expf(max - row_max);
  return {row_max, ReduceBlock<kThreads>(sum, PlusOperation())};
}

template <typename T, int kElements>
__device__ void StoreZeros(T* row, int64_t vocab) {
  for (int64_t at = threadIdx.x * kElements; at < vocab; at += kThreads * kElements) {
    StorePack<kElements>(row + at, Pack<T, kElements>{});
  }
}

/// One block per row.
template <typename T, int kElements>
__global__ void __launch_bounds__(kThreads) CrossEntropyKernel(CrossEntropy op) {
  const int64_t row = blockIdx.x;
  const float* const logits = op.logits + row * op.vocab;
  T* const gradient =
      op.gradient == nullptr ? nullptr : static_cast<T*>(op.gradient) + row * op.vocab;
  const int32_t target = op.targets[row];
  if (target == kIgnoredLabel) {
    if (threadIdx.x == 0) op.losses[row] = 0.0f;
    if (gradient != nullptr) StoreZeros<T, kElements>(gradient, op.vocab);
    return;
  }
  DeviceCheck(target >= 0 && target < op.vocab);
  const Softmax softmax = SoftmaxOfRow<kElements>(logits, op.vocab);
  if (threadIdx.x == 0) {
    op.losses[row] = logf(softmax.sum) + softmax.max - logits[target];
  }
  if (gradient == nullptr) return;
  const float inverse_sum = 1.0f / softmax.sum;
  for (int64_t at = threadIdx.x * kElements; at < op.vocab;
       at += kThreads * kElements) {
    const Pack<float, kElements> pack = LoadPack<kElements>(logits + at);
    Pack<T, kElements> result;
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const float probability = expf(pack.values[i] - softmax.max) * inverse_sum;
      const float onehot = at + i == target ? 1.0f : 0.0f;
      result.values[i] = FromFloat<T>((probability - onehot) * op.scale);
    }
    StorePack<kElements>(gradient + at, result);
  }
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const CrossEntropy& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.gradient, op.logits}, {op.vocab});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    CrossEntropyKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows, 1), kThreads, 0, stream>>>(op);
    return LaunchStatus("CrossEntropy");
  });
}

}  // namespace strata::cuda
