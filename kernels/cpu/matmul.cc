#include "kernels/cpu/matmul.h"

#include <absl/strings/str_format.h>

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

absl::Status CheckShape(const Matmul& op) {
  const int64_t a_width = op.transpose_a ? op.m : op.k;
  if (op.m > 0 && op.n > 0 && op.k > 0 && op.a_stride >= a_width &&
      op.c_stride >= op.n) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("matmul of m %d, n %d, k %d with rows %d (a) and %d (c) elements "
                      "apart: extents must be positive and rows must not overlap",
                      op.m, op.n, op.k, op.a_stride, op.c_stride));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CpuMatmul>> CpuMatmul::Create(ThreadPool* pool) {
  std::unique_ptr<Bf16Matmul> bf16;
  if (Bf16Matmul::Supported()) {
    STRATA_ASSIGN_OR_RETURN(bf16, Bf16Matmul::Create(pool));
  }
  return std::unique_ptr<CpuMatmul>(new CpuMatmul(pool, std::move(bf16)));
}

int64_t CpuMatmul::workspace_bytes() const {
  return std::max(TiledMatmulWorkspaceBytes(pool_->threads()),
                  bf16_ == nullptr ? 0 : bf16_->workspace_bytes());
}

absl::Status CpuMatmul::Run(const Matmul& op) {
  Matmul tight = op;
  if (op.a_stride == 0) tight.a_stride = op.transpose_a ? op.m : op.k;
  if (op.c_stride == 0) tight.c_stride = op.n;
  STRATA_RETURN_IF_ERROR(CheckShape(tight));
  STRATA_CHECK(op.workspace != nullptr);
  if (op.dtype == DType::kBF16 && bf16_ != nullptr) {
    STRATA_ASSIGN_OR_RETURN(const bool done, bf16_->Run(tight));
    if (done) return absl::OkStatus();
  }
  TiledMatmul(*pool_, tight);
  return absl::OkStatus();
}

}  // namespace strata
