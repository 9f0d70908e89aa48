/// The few PTX instructions that the attention kernels are made of: asynchronous copies
/// into shared memory, loads of 8x8 matrices, and the bf16 tensor-core multiplication.
/// Needs compute capability 8.0.
///
/// Fragments, with g = lane / 4 and c = 2 * (lane % 4):
///   A, 16x16: a[0] row g columns c c+1 · a[1] row g+8 · a[2], a[3] the same, columns
///   +8 B, 16x8:  b[0] rows c c+1 of column g · b[1] rows +8 C, 16x8:  c[0] c[1] row g
///   columns c c+1 · c[2] c[3] row g+8
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace strata::cuda {

/// What the hardware calls an address in shared memory.
__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Copies 16 bytes, or writes 16 zero bytes without reading if not `valid`.
__device__ inline void CopyAsync16(void* target, const void* source, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(SharedAddress(target)),
      "l"(source), "r"(bytes));
}

/// The same for 4 bytes.
__device__ inline void CopyAsync4(void* target, const void* source, bool valid) {
  const int bytes = valid ? 4 : 0;
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(SharedAddress(target)),
      "l"(source), "r"(bytes));
}

/// Ends a group of copies. Waiting is per thread: a barrier must follow before other
/// threads' copies are read.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n"); }

/// Waits until at most kGroups of the latest groups are unfinished.
template <int kGroups>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kGroups));
}

/// Loads four 8x8 matrices; lanes 8i to 8i+7 give the addresses of the rows of matrix
/// i.
__device__ inline void LoadMatrices(uint32_t (&matrices)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]),
                 "=r"(matrices[3])
               : "r"(SharedAddress(row)));
}

/// The same, each matrix transposed.
__device__ inline void LoadMatricesTransposed(uint32_t (&matrices)[4],
                                              const void* row) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
      : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
      : "r"(SharedAddress(row)));
}

/// c += a * b
__device__ inline void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two bf16 in one register, `low` in the lower half.
__device__ inline uint32_t PackBf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}

/// 2^x to 2 units in the last place; 0 for -infinity.
__device__ inline float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace strata::cuda
