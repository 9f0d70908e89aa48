#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads) AddKernel(Add op) {
  const int64_t at = FirstElement<kElements>();
  if (at >= op.count) return;
  const Pack<T, kElements> a = LoadPack<kElements>(static_cast<const T*>(op.a) + at);
  const Pack<T, kElements> b = LoadPack<kElements>(static_cast<const T*>(op.b) + at);
  Pack<T, kElements> sum;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    sum.values[i] = FromFloat<T>(ToFloat(a.values[i]) + ToFloat(b.values[i]));
  }
  StorePack<kElements>(static_cast<T*>(op.output) + at, sum);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const Add& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.output, op.a, op.b}, {op.count});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    AddKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.count, kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("Add");
  });
}

}  // namespace strata::cuda
