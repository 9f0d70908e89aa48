#include "kernels/cuda/cuda_kernels.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Kernels>> CreateCudaKernels(const KernelOptions&) {
  return absl::UnimplementedError(
      "this build has no CUDA kernels: build with STRATA_CUDA=ON where nvcc is found, "
      "or "
      "run with --device cpu");
}

}  // namespace strata
