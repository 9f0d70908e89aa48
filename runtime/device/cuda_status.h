/// cudaError_t -> absl::Status, for everything that talks to the CUDA runtime.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <cuda_runtime_api.h>

namespace strata {

/// OK, or a status that reads "CONTEXT: what CUDA says (cudaErrorName)". Also clears
/// the runtime's last error of this thread, so that the next launch check does not
/// report it a second time; errors that end the context (an illegal address) come back
/// from every later call all the same. No driver and no device are Unavailable, no
/// memory is ResourceExhausted, code for another card is Unimplemented, the rest is
/// Internal.
absl::Status CudaStatus(cudaError_t error, absl::string_view context);

}  // namespace strata

#define STRATA_CUDA_RETURN_IF_ERROR(expression, context) \
  STRATA_RETURN_IF_ERROR(::strata::CudaStatus((expression), (context)))
