/// What the CUDA kernels support of each operation: extents that are positive, fit the
/// grid, and divide as the operation demands. InvalidArgument names operation and
/// extent. Element types are left to the launch.
#pragma once

#include <absl/status/status.h>

#include "kernels/ops.h"

namespace strata::cuda {

absl::Status Validate(const Matmul& op);
absl::Status Validate(const EmbeddingForward& op);
absl::Status Validate(const EmbeddingBackward& op);
absl::Status Validate(const AddBias& op);
absl::Status Validate(const BiasGradient& op);
absl::Status Validate(const RmsNormForward& op);
absl::Status Validate(const RmsNormBackward& op);
absl::Status Validate(const Rope& op);
absl::Status Validate(const AttentionForward& op);
absl::Status Validate(const AttentionBackward& op);
absl::Status Validate(const SwiGluForward& op);
absl::Status Validate(const SwiGluBackward& op);
absl::Status Validate(const Add& op);
absl::Status Validate(const CrossEntropy& op);
absl::Status Validate(const SumInOrder& op);
absl::Status Validate(const Fill& op);
absl::Status Validate(const ReduceGradient& op);
absl::Status Validate(const AdamW& op);

}  // namespace strata::cuda
