#include <absl/strings/str_cat.h>

#include "kernels/cuda/kernel_image.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {
namespace {

__global__ void EmptyKernel() {}

}  // namespace

absl::Status CheckKernelImage() {
  cudaFuncAttributes attributes;
  const absl::Status status =
      CudaStatus(cudaFuncGetAttributes(&attributes, EmptyKernel), "CUDA kernels");
  if (status.ok() || absl::IsUnavailable(status)) return status;
  return absl::UnimplementedError(absl::StrCat(
      status.message(),
      "; this build has code for other cards: add yours to STRATA_CUDA_ARCHITECTURES"));
}

}  // namespace strata::cuda
