#include "kernels/cuda/cuda_kernels.h"

#include <absl/strings/str_cat.h>
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <gnu/libc-version.h>

#include <utility>

#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/kernel_image.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/matmul.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata {
namespace cuda {
namespace {

class CudaKernels final : public Kernels {
 public:
  explicit CudaKernels(std::unique_ptr<CublasMatmul> matmul)
      : matmul_(std::move(matmul)) {}

  int64_t matmul_workspace_bytes() const override {
    return CublasMatmul::kWorkspaceBytes;
  }
  std::vector<NumericsEntry> Numerics(DType dtype) const override;

  absl::Status Run(Stream& stream, const Matmul& op) override {
    return matmul_->Run(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const EmbeddingForward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const EmbeddingBackward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const AddBias& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const BiasGradient& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const RmsNormForward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const RmsNormBackward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const Rope& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const AttentionForward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const AttentionBackward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const SwiGluForward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const SwiGluBackward& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const Add& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const CrossEntropy& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const SumInOrder& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const Fill& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const ReduceGradient& op) override {
    return Launch(Native(stream), op);
  }
  absl::Status Run(Stream& stream, const AdamW& op) override {
    return Launch(Native(stream), op);
  }

 private:
  static cudaStream_t Native(const Stream& stream) {
    STRATA_CHECK(stream.device().kind() == DeviceKind::kCuda);
    return static_cast<cudaStream_t>(stream.native_handle());
  }

  const std::unique_ptr<CublasMatmul> matmul_;
};

/// Counts changes of our own kernels that change bits.
constexpr int kRevision = 1;

std::vector<NumericsEntry> CudaKernels::Numerics(DType /*dtype*/) const {
  int device = 0, driver = 0;
  cudaDeviceProp card{};
  const bool found = cudaGetDevice(&device) == cudaSuccess &&
                     cudaGetDeviceProperties(&card, device) == cudaSuccess;
  cudaDriverGetVersion(&driver);
  return {
      {"cuda.card", found ? card.name : "unknown"},
      {"cuda.matmul", absl::StrCat("cuBLASLt ", cublasLtGetVersion(),
                                   ", first deterministic suggestion within ",
                                   CublasMatmul::kWorkspaceBytes, " bytes")},
      {"cuda.kernels", absl::StrCat("revision ", kRevision)},
      {"cuda.driver", absl::StrCat(driver), /*decides_bits=*/false},
      // Tables of the layers are made on the host.
      {"cpu.libm", absl::StrCat("glibc ", gnu_get_libc_version())},
  };
}

}  // namespace

absl::Status LaunchStatus(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return absl::OkStatus();
  return CudaStatus(error, absl::StrCat("launching ", kernel));
}

}  // namespace cuda

absl::StatusOr<std::unique_ptr<Kernels>> CreateCudaKernels(
    const KernelOptions& /*options*/) {
  STRATA_RETURN_IF_ERROR(cuda::CheckKernelImage());
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CublasMatmul> matmul,
                          cuda::CublasMatmul::Create());
  return std::make_unique<cuda::CudaKernels>(std::move(matmul));
}

}  // namespace strata
