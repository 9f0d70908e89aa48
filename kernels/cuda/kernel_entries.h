/// The entries of kernels/cuda/*.cu: each checks its arguments, computes the grid and
/// launches on `stream`. Nothing is launched when the status is not OK.
#pragma once

#include <absl/status/status.h>
#include <cuda_runtime_api.h>

#include "kernels/ops.h"

namespace strata::cuda {

absl::Status Launch(cudaStream_t stream, const EmbeddingForward& op);
absl::Status Launch(cudaStream_t stream, const EmbeddingBackward& op);
absl::Status Launch(cudaStream_t stream, const AddBias& op);
absl::Status Launch(cudaStream_t stream, const BiasGradient& op);
absl::Status Launch(cudaStream_t stream, const RmsNormForward& op);
absl::Status Launch(cudaStream_t stream, const RmsNormBackward& op);
absl::Status Launch(cudaStream_t stream, const Rope& op);
absl::Status Launch(cudaStream_t stream, const AttentionForward& op);
absl::Status Launch(cudaStream_t stream, const AttentionBackward& op);
absl::Status Launch(cudaStream_t stream, const SwiGluForward& op);
absl::Status Launch(cudaStream_t stream, const SwiGluBackward& op);
absl::Status Launch(cudaStream_t stream, const Add& op);
absl::Status Launch(cudaStream_t stream, const CrossEntropy& op);
absl::Status Launch(cudaStream_t stream, const SumInOrder& op);
absl::Status Launch(cudaStream_t stream, const Fill& op);
absl::Status Launch(cudaStream_t stream, const ReduceGradient& op);
absl::Status Launch(cudaStream_t stream, const AdamW& op);

}  // namespace strata::cuda
