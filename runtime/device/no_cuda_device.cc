#include "runtime/device/cuda_device.h"

namespace strata {

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int /*ordinal*/) {
  return absl::UnavailableError(
      "this build has no CUDA (it was configured without nvcc or with "
      "STRATA_CUDA=OFF); "
      "use the CPU device, or build with the CUDA toolkit");
}

}  // namespace strata
