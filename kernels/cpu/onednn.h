/// The little that we use of oneDNN's C interface, with one thread per call: the pool
/// has the threads, and then a result cannot depend on how oneDNN would have shared the
/// work.
#pragma once

#include <cstdint>
#include <string>

namespace strata {

/// "2.6.3 for avx512_core_bf16": the version, and the instructions that it uses here
/// (DNNL_MAX_CPU_ISA limits them).
std::string OneDnnDescription();

/// While one lives, oneDNN computes in the calling thread alone.
class OneThread {
 public:
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

/// c = op(a) * op(b) + beta * c in fp32, all row-major with rows `_stride` elements
/// apart. Needs a OneThread. Rows of equal content get equal bits, wherever they lie,
/// if m is a multiple of kSgemmRows: measured on every instruction set that oneDNN
/// knows, and a test.
struct Sgemm {
  float* c;        // [m, n]
  const float* a;  // [m, k], or [k, m] if transpose_a
  const float* b;  // [k, n], or [n, k] if transpose_b
  int64_t m, n, k;
  int64_t a_stride, b_stride, c_stride;
  bool transpose_a = false, transpose_b = false;
  float beta = 0;
};
inline constexpr int64_t kSgemmRows = 24;
void Run(const Sgemm& gemm);

}  // namespace strata
