#include "kernels/cpu/onednn.h"

#include <absl/strings/str_cat.h>
#include <dnnl.h>

#include <array>

#include "runtime/base/status.h"

// oneDNN is built with GNU's OpenMP, whatever compiler builds us; <omp.h> would be the
// compiler's own.
extern "C" {
int omp_get_max_threads(void);
void omp_set_num_threads(int);
}

namespace strata {

std::string OneDnnDescription() {
  struct Isa {
    dnnl_cpu_isa_t isa;
    const char* name;
  };
  // Each contains the bits of those before it.
  constexpr std::array kIsas = {Isa{dnnl_cpu_isa_sse41, "sse41"},
                                Isa{dnnl_cpu_isa_avx, "avx"},
                                Isa{dnnl_cpu_isa_avx2, "avx2"},
                                Isa{dnnl_cpu_isa_avx512_core, "avx512_core"},
                                Isa{dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                                Isa{dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                                Isa{dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"}};
  const dnnl_cpu_isa_t effective = dnnl_get_effective_cpu_isa();
  const char* name = "any x86-64";
  for (const Isa& isa : kIsas) {
    if ((effective & isa.isa) == isa.isa) name = isa.name;
  }
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat(version.major, ".", version.minor, ".", version.patch, " for ",
                      name);
}

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
