#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata::cuda {

absl::Status Launch(cudaStream_t stream, const Fill& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  return CudaStatus(cudaMemsetAsync(op.target, 0, op.size_bytes, stream), "Fill");
}

}  // namespace strata::cuda
