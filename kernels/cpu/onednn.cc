#include "kernels/cpu/onednn.h"

#include <dnnl.h>

#include "runtime/base/status.h"

// oneDNN is built with GNU's OpenMP, whatever compiler builds us; <omp.h> would be the
// compiler's own.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace strata {

OneThread::OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneThread::~OneThread() { omp_set_num_threads(before_); }

void Run(const Sgemm& gemm) {
  const dnnl_status_t status =
      dnnl_sgemm(gemm.transpose_a ? 'T' : 'N', gemm.transpose_b ? 'T' : 'N', gemm.m,
                 gemm.n, gemm.k, 1.0f, gemm.a, gemm.a_stride, gemm.b, gemm.b_stride,
                 gemm.beta, gemm.c, gemm.c_stride);
  STRATA_CHECK(status == dnnl_success);  // it fails for wrong arguments only
}

}  // namespace strata
