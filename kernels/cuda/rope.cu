#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

/// A thread rotates kElements neighbouring pairs of one head of one row.
template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads) RopeKernel(Rope op) {
  const int64_t half = op.head_dim / 2;
  const int64_t pair = FirstElement<kElements>();  // over [rows, heads, half]
  if (pair >= op.rows * op.heads * half) return;
  const int64_t j = pair % half;
  const int64_t head = pair / half % op.heads;
  const int64_t row = pair / half / op.heads;
  T* const low =
      static_cast<T*>(op.values) + row * op.row_stride + head * op.head_dim + j;
  T* const high = low + half;
  const int64_t angle = static_cast<int64_t>(op.positions[row]) * half + j;

  Pack<T, kElements> a = LoadPack<kElements>(low);
  Pack<T, kElements> b = LoadPack<kElements>(high);
  const auto cosines = LoadPack<kElements>(op.cosines + angle);
  const auto sines = LoadPack<kElements>(op.sines + angle);
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float x = ToFloat(a.values[i]);
    const float y = ToFloat(b.values[i]);
    const float cosine = cosines.values[i];
    const float sine = op.inverse ? -sines.values[i] : sines.values[i];
    a.values[i] = FromFloat<T>(x * cosine - y * sine);
    b.values[i] = FromFloat<T>(y * cosine + x * sine);
  }
  StorePack<kElements>(low, a);
  StorePack<kElements>(high, b);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const Rope& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack =
      CanPack({op.values, op.cosines, op.sines}, {op.head_dim / 2, op.row_stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    RopeKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows * op.heads * op.head_dim / 2,
                      kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("Rope");
  });
}

}  // namespace strata::cuda
