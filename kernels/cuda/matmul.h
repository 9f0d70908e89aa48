/// Matmul by cuBLASLt, with an algorithm that is chosen once per shape.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/ops.h"
#include "runtime/base/types.h"

namespace strata::cuda {

/// All that the choice of an algorithm depends on.
struct MatmulShape {
  int64_t m, n, k, a_stride, c_stride;
  bool transpose_a, transpose_b;
  DType dtype, c_dtype;
  uint32_t a_alignment, b_alignment, c_alignment;  // bytes

  static MatmulShape Of(const Matmul& op);
  auto operator<=>(const MatmulShape&) const = default;
};

/// The choice is the library's first suggestion that is deterministic: no reduction
/// over k by several blocks, but for transpose_a (weight gradients, where k is the
/// number of tokens), and there only one that goes through the workspace in a fixed
/// order. It depends on shape, strides, types and alignment, and not on free memory.
/// Without transpose_a it does not depend on the number of rows either: the library is
/// asked about kRowsAssumed rows, so that a row's sum is made the same way in every
/// batch. Fp32 stays fp32: no tf32.
///
/// Not thread-safe. Of the device that is current in Create.
class CublasMatmul {
 public:
  static constexpr int64_t kWorkspaceBytes = 32 * kMiB;
  static constexpr int64_t kRowsAssumed = 4096;

  static absl::StatusOr<std::unique_ptr<CublasMatmul>> Create();
  ~CublasMatmul();
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  /// Allocates only where a shape is seen for the first time.
  absl::Status Run(cudaStream_t stream, const Matmul& op);

 private:
  explicit CublasMatmul(cublasLtHandle_t handle) : handle_(handle) {}
  absl::StatusOr<const cublasLtMatmulAlgo_t*> AlgorithmFor(const MatmulShape& shape);
  absl::StatusOr<cublasLtMatmulAlgo_t> Choose(const MatmulShape& shape) const;

  const cublasLtHandle_t handle_;
  std::map<MatmulShape, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace strata::cuda
