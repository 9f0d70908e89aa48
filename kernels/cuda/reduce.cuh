/// Sums and maxima over a warp or a block. The tree is fixed by the block's size, so
/// the result depends on the values only: no atomics, no race for who is first.
#pragma once

namespace strata::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFu;

struct PlusOperation {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct MaxOperation {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Every lane gets the result. `kLanes` neighbouring lanes reduce among themselves.
template <int kLanes = kWarp, typename Operation>
__device__ float ReduceLanes(float value, Operation operation) {
#pragma unroll
  for (int offset = kLanes / 2; offset > 0; offset /= 2) {
    value = operation(value, __shfl_xor_sync(kAllLanes, value, offset));
  }
  return value;
}

/// Every thread of a block of kThreads gets the result. All of them must call it.
template <int kThreads, typename Operation>
__device__ float ReduceBlock(float value, Operation operation) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ float partial[kWarps];
  value = ReduceLanes(value, operation);
  if (threadIdx.x % kWarp == 0) partial[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = partial[0];
#pragma unroll
  for (int warp = 1; warp < kWarps; ++warp) value = operation(value, partial[warp]);
  __syncthreads();  // the next reduction writes `partial` again
  return value;
}

}  // namespace strata::cuda
