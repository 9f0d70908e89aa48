/// The loop of kernels that treat every pack of elements alike.
#pragma once

#include <cstdint>

namespace strata::cuda {

inline constexpr int kElementwiseThreads = 256;

/// The element at which this thread's pack of kElements starts, in a one-dimensional
/// grid.
template <int kElements>
__device__ int64_t FirstElement() {
  return (static_cast<int64_t>(blockIdx.x) * kElementwiseThreads + threadIdx.x) *
         kElements;
}

}  // namespace strata::cuda
