#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/ops.h"

namespace strata {

int64_t BiasGradientWorkspaceBytes(int64_t rows, int64_t width) {
  return RowPartials(rows) * width * static_cast<int64_t>(sizeof(float));
}

int64_t RmsNormBackwardWorkspaceBytes(int64_t rows, int64_t width) {
  return RowPartials(rows) * width * static_cast<int64_t>(sizeof(float));
}

int64_t AttentionBackwardWorkspaceBytes(int64_t rows, int64_t heads) {
  return rows * heads * static_cast<int64_t>(sizeof(float));  // delta of each query
}

absl::StatusOr<std::unique_ptr<Kernels>> CreateKernels(DeviceKind kind,
                                                       const KernelOptions& options) {
  return kind == DeviceKind::kCpu ? CpuKernels::Create(options)
                                  : CreateCudaKernels(options);
}

}  // namespace strata
