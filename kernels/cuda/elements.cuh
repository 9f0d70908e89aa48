/// Elements in memory (fp32 or bf16) and in registers (fp32), and wide accesses.
#pragma once

#include <absl/status/status.h>
#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "runtime/base/types.h"

namespace strata::cuda {

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }

template <typename T>
__device__ T FromFloat(float value);
template <>
__device__ inline float FromFloat<float>(float value) {
  return value;
}
template <>
__device__ inline __nv_bfloat16 FromFloat<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// kCount neighbouring elements, moved in accesses of 16 bytes where they fill one.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T values[kCount];
};

template <int kCount, typename T>
__device__ Pack<T, kCount> LoadPack(const T* source) {
  return *reinterpret_cast<const Pack<T, kCount>*>(source);
}
template <int kCount, typename T>
__device__ void StorePack(T* target, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(target) = pack;
}

/// Ends the kernel, and with it the context, if data breaks a promise of ops.h (a token
/// outside of the vocabulary): what STRATA_CHECK is on the host.
__device__ inline void DeviceCheck(bool condition) {
  if (!condition) __trap();
}

/// Calls `launch` with a value of the C++ type of `dtype`: a template argument that is
/// only known at run time.
template <typename Launch>
absl::Status ForDType(DType dtype, Launch launch) {
  switch (dtype) {
    case DType::kF32:
      return launch(float{});
    case DType::kBF16:
      return launch(__nv_bfloat16{});
    case DType::kF16:
      break;
  }
  return absl::InvalidArgumentError("CUDA kernels compute in F32 and BF16, not in F16");
}

/// The same, and with the number of elements in a pack as an integral constant.
template <int kCount>
struct PackOf {
  static constexpr int kElements = kCount;
};
template <typename Launch>
absl::Status ForDTypeAndPack(DType dtype, bool can_pack, Launch launch) {
  return ForDType(dtype, [&](auto element) {
    return can_pack ? launch(element, PackOf<kPackElements>{})
                    : launch(element, PackOf<1>{});
  });
}

}  // namespace strata::cuda
