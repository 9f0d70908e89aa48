#include "kernels/adamw_math.h"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "kernels/master.h"
#include "runtime/base/status.h"

// This file is compiled with -fmad=false; the formula is kernels/adamw_math.h, word for
// word what the CPU runs.

namespace strata::cuda {
namespace {

/// The fp32 master of element `i` of a pack, and how a new one is stored.
struct MasterF32 {
  using Weight = float;
  static constexpr uint32_t kBad = kBadMasterF32;
  template <int kElements>
  struct Values {
    Pack<float, kElements> weight;
    __device__ Values(const AdamW& op, int64_t at)
        : weight(LoadPack<kElements>(static_cast<const float*>(op.weight) + at)) {}
    __device__ float Get(int i) const { return weight.values[i]; }
    __device__ void Set(int i, float master) { weight.values[i] = master; }
    __device__ void StoreRemainder(const AdamW&, int64_t) const {}
  };
};

struct MasterBf16 {
  using Weight = uint16_t;  // the bits of a bf16
  static constexpr uint32_t kBad = kBadMasterBf16;
  template <int kElements>
  struct Values {
    Pack<uint16_t, kElements> weight;
    Pack<int16_t, kElements> remainder;
    __device__ Values(const AdamW& op, int64_t at)
        : weight(LoadPack<kElements>(static_cast<const uint16_t*>(op.weight) + at)),
          remainder(LoadPack<kElements>(op.remainder + at)) {}
    __device__ float Get(int i) const {
      return __uint_as_float(Join(weight.values[i], remainder.values[i]));
    }
    __device__ void Set(int i, float master) {
      const SplitMaster split = Split(__float_as_uint(master));
      weight.values[i] = split.weight;
      remainder.values[i] = split.remainder;
    }
    __device__ void StoreRemainder(const AdamW& op, int64_t at) const {
      StorePack<kElements>(op.remainder + at, remainder);
    }
  };
};

__device__ float GradientValue(float gradient) { return gradient; }
__device__ float GradientValue(uint16_t bf16) {
  return __uint_as_float(static_cast<uint32_t>(bf16) << 16);
}

template <typename Master, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads) AdamWKernel(AdamW op) {
  using Weight = typename Master::Weight;
  const int64_t at = FirstElement<kElements>();
  if (at >= op.count) return;
  typename Master::template Values<kElements> master(op, at);
  const auto gradient =
      LoadPack<kElements>(static_cast<const Weight*>(op.gradient) + at);
  Pack<float, kElements> moment1 = LoadPack<kElements>(op.moment1 + at);
  Pack<float, kElements> moment2 = LoadPack<kElements>(op.moment2 + at);
  int bad = kElements;
#pragma unroll
  for (int i = kElements - 1; i >= 0; --i) {
    const adamw::Element result =
        adamw::Step(op.scalars, GradientValue(gradient.values[i]),
                    {master.Get(i), moment1.values[i], moment2.values[i]});
    if (MagnitudeBits(__float_as_uint(result.master)) >= Master::kBad) bad = i;
    master.Set(i, result.master);
    moment1.values[i] = result.moment1;
    moment2.values[i] = result.moment2;
  }
  if (bad < kElements) {
    // A minimum of integers is the same in any order.
    atomicMin(reinterpret_cast<long long*>(op.first_bad),
              static_cast<long long>(op.first_element + at + bad));
  }
  if (op.speculated == nullptr || op.next_gradient != nullptr) {
    StorePack<kElements>(static_cast<Weight*>(op.weight) + at, master.weight);
    master.StoreRemainder(op, at);
    StorePack<kElements>(op.moment1 + at, moment1);
    StorePack<kElements>(op.moment2 + at, moment2);
  }
  if (op.speculated == nullptr) return;
  if (op.next_gradient != nullptr) {
    const auto next =
        LoadPack<kElements>(static_cast<const Weight*>(op.next_gradient) + at);
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      const adamw::Element result =
          adamw::Step(op.next_scalars, GradientValue(next.values[i]),
                      {master.Get(i), moment1.values[i], moment2.values[i]});
      master.Set(i, result.master);
    }
    if (op.kept_gradient != nullptr) {
      StorePack<kElements>(static_cast<Weight*>(op.kept_gradient) + at, next);
    }
  }
  StorePack<kElements>(static_cast<Weight*>(op.speculated) + at, master.weight);
}

template <typename Master, int kElements>
absl::Status LaunchFor(cudaStream_t stream, const AdamW& op) {
  AdamWKernel<Master, kElements>
      <<<BlockCount(op.count, kElementwiseThreads * kElements), kElementwiseThreads, 0,
         stream>>>(op);
  return LaunchStatus("AdamW");
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const AdamW& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack =
      CanPack({op.weight, op.remainder, op.moment1, op.moment2, op.gradient,
               op.speculated, op.next_gradient, op.kept_gradient},
              {op.count});
  if (op.dtype == DType::kF32) {
    return can_pack ? LaunchFor<MasterF32, kPackElements>(stream, op)
                    : LaunchFor<MasterF32, 1>(stream, op);
  }
  return can_pack ? LaunchFor<MasterBf16, kPackElements>(stream, op)
                  : LaunchFor<MasterBf16, 1>(stream, op);
}

}  // namespace strata::cuda
