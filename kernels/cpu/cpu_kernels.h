/// The operations on the CPU: readable references for the CUDA kernels, and fast enough
/// to train small models with. Everything has happened when Run returns; the stream is
/// not used.
#pragma once

#include <memory>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace strata {

class CpuKernels final : public Kernels {
 public:
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(const KernelOptions& options);

  int64_t matmul_workspace_bytes() const override { return matmul_->workspace_bytes(); }
  std::vector<NumericsEntry> Numerics(DType dtype) const override;

  absl::Status Run(Stream& stream, const Matmul& op) override;
  absl::Status Run(Stream& stream, const EmbeddingForward& op) override;
  absl::Status Run(Stream& stream, const EmbeddingBackward& op) override;
  absl::Status Run(Stream& stream, const AddBias& op) override;
  absl::Status Run(Stream& stream, const BiasGradient& op) override;
  absl::Status Run(Stream& stream, const RmsNormForward& op) override;
  absl::Status Run(Stream& stream, const RmsNormBackward& op) override;
  absl::Status Run(Stream& stream, const Rope& op) override;
  absl::Status Run(Stream& stream, const AttentionForward& op) override;
  absl::Status Run(Stream& stream, const AttentionBackward& op) override;
  absl::Status Run(Stream& stream, const SwiGluForward& op) override;
  absl::Status Run(Stream& stream, const SwiGluBackward& op) override;
  absl::Status Run(Stream& stream, const Add& op) override;
  absl::Status Run(Stream& stream, const CrossEntropy& op) override;
  absl::Status Run(Stream& stream, const SumInOrder& op) override;
  absl::Status Run(Stream& stream, const Fill& op) override;
  absl::Status Run(Stream& stream, const ReduceGradient& op) override;
  absl::Status Run(Stream& stream, const AdamW& op) override;

 private:
  explicit CpuKernels(int threads) : pool_(threads) {}
  template <typename Op>
  absl::Status RunIfSupported(const Op& op, absl::string_view name);

  ThreadPool pool_;
  std::unique_ptr<CpuMatmul> matmul_;
};

}  // namespace strata
