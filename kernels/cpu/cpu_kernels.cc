#include "kernels/cpu/cpu_kernels.h"

#include <absl/strings/str_cat.h>

#include "kernels/cpu/cpu_ops.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

absl::Status CheckDType(DType dtype, absl::string_view name) {
  if (dtype == DType::kF32 || dtype == DType::kBF16) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " on the CPU computes F32 and ", "BF16, not ", Name(dtype)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernels>> CpuKernels::Create(
    const KernelOptions& options) {
  if (options.threads < 1 || options.threads > ThreadPool::kThreadsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("CPU kernels run with 1 to ", ThreadPool::kThreadsMax,
                     " threads, and ", options.threads, " were asked for"));
  }
  std::unique_ptr<CpuKernels> kernels(new CpuKernels(options.threads));
  STRATA_ASSIGN_OR_RETURN(kernels->matmul_, CpuMatmul::Create(&kernels->pool_));
  return kernels;
}

template <typename Op>
absl::Status CpuKernels::RunIfSupported(const Op& op, absl::string_view name) {
  STRATA_RETURN_IF_ERROR(CheckDType(op.dtype, name));
  Compute(pool_, op);
  return absl::OkStatus();
}

absl::Status CpuKernels::Run(Stream&, const Matmul& op) {
  STRATA_RETURN_IF_ERROR(CheckDType(op.dtype, "matmul"));
  STRATA_RETURN_IF_ERROR(CheckDType(op.c_dtype, "matmul"));
  return matmul_->Run(op);
}

absl::Status CpuKernels::Run(Stream&, const EmbeddingForward& op) {
  return RunIfSupported(op, "embedding");
}

absl::Status CpuKernels::Run(Stream&, const EmbeddingBackward& op) {
  return RunIfSupported(op, "embedding gradient");
}

absl::Status CpuKernels::Run(Stream&, const AddBias& op) {
  return RunIfSupported(op, "bias");
}

absl::Status CpuKernels::Run(Stream&, const BiasGradient& op) {
  return RunIfSupported(op, "bias gradient");
}

absl::Status CpuKernels::Run(Stream&, const RmsNormForward& op) {
  return RunIfSupported(op, "RMS norm");
}

absl::Status CpuKernels::Run(Stream&, const RmsNormBackward& op) {
  return RunIfSupported(op, "RMS norm gradient");
}

absl::Status CpuKernels::Run(Stream&, const Rope& op) {
  return RunIfSupported(op, "rotary embedding");
}

absl::Status CpuKernels::Run(Stream&, const AttentionForward& op) {
  return RunIfSupported(op, "attention");
}

absl::Status CpuKernels::Run(Stream&, const AttentionBackward& op) {
  return RunIfSupported(op, "attention gradient");
}

absl::Status CpuKernels::Run(Stream&, const SwiGluForward& op) {
  return RunIfSupported(op, "SwiGLU");
}

absl::Status CpuKernels::Run(Stream&, const SwiGluBackward& op) {
  return RunIfSupported(op, "SwiGLU gradient");
}

absl::Status CpuKernels::Run(Stream&, const Add& op) {
  return RunIfSupported(op, "add");
}

absl::Status CpuKernels::Run(Stream&, const CrossEntropy& op) {
  return RunIfSupported(op, "cross-entropy");
}

absl::Status CpuKernels::Run(Stream&, const SumInOrder& op) {
  Compute(pool_, op);
  return absl::OkStatus();
}

absl::Status CpuKernels::Run(Stream&, const Fill& op) {
  Compute(pool_, op);
  return absl::OkStatus();
}

absl::Status CpuKernels::Run(Stream&, const ReduceGradient& op) {
  return RunIfSupported(op, "gradient reduction");
}

absl::Status CpuKernels::Run(Stream&, const AdamW& op) {
  return RunIfSupported(op, "AdamW");
}

}  // namespace strata
