/// Matmul on the CPU, in one of two ways that the shape and the processor choose, never
/// the load of the machine: BF16 by oneDNN where the processor multiplies BF16, and
/// everything else in fp32 tiles.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <memory>

#include "kernels/cpu/bf16_matmul.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"

namespace strata {

/// Calls of one object are serialised: a matmul uses all threads anyway.
class CpuMatmul {
 public:
  /// `pool` is not owned.
  static absl::StatusOr<std::unique_ptr<CpuMatmul>> Create(ThreadPool* pool);

  int64_t workspace_bytes() const;
  /// InvalidArgument if an extent is not positive or a stride is too small.
  absl::Status Run(const Matmul& op);

 private:
  CpuMatmul(ThreadPool* pool, std::unique_ptr<Bf16Matmul> bf16)
      : pool_(pool), bf16_(std::move(bf16)) {}

  ThreadPool* const pool_;
  const std::unique_ptr<Bf16Matmul> bf16_;  // null if the processor has no BF16
};

/// Fixed tiles, sums over tiles of k in order. A row's bits depend neither on the other
/// rows nor on the number of threads.
void TiledMatmul(ThreadPool& pool, const Matmul& op);
int64_t TiledMatmulWorkspaceBytes(int threads);

}  // namespace strata
