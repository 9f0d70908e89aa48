/// BF16 matmul by oneDNN, where the processor has the instructions. Each thread of the
/// pool multiplies a fixed share of the rows; oneDNN's objects are made once for each
/// shape and kept.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/ops.h"
#include "runtime/base/mutex.h"

// oneDNN's types, so that <dnnl.h> stays in one file.
struct dnnl_engine;
struct dnnl_stream;

namespace strata {

class Bf16Matmul {
 public:
  /// Whether this processor multiplies BF16 (and DNNL_MAX_CPU_ISA permits it).
  static bool Supported();

  /// `pool` is not owned.
  static absl::StatusOr<std::unique_ptr<Bf16Matmul>> Create(ThreadPool* pool);
  ~Bf16Matmul();

  int64_t workspace_bytes() const;

  /// REQUIRES: op.dtype is BF16, and the strides are set. Without transpose_a a row's
  /// bits depend neither on the other rows nor on the number of threads; with it, on
  /// the number of threads they may. False, and nothing done, if oneDNN wants more
  /// scratch for this shape than there is.
  absl::StatusOr<bool> Run(const Matmul& op);

 private:
  /// What oneDNN's objects depend on. Two parts of one call never share an object.
  struct Key {
    int64_t part, m, n, k, a_stride, c_stride;
    bool transpose_a, transpose_b, accumulate;
    DType c_dtype;
    auto operator<=>(const Key&) const = default;
  };
  class Product;

  explicit Bf16Matmul(ThreadPool* pool);
  absl::StatusOr<Product*> FindOrMake(const Key& key) STRATA_REQUIRES(mutex_);

  ThreadPool* const pool_;
  dnnl_engine* engine_ = nullptr;
  dnnl_stream* stream_ = nullptr;
  Mutex mutex_;
  std::map<Key, std::unique_ptr<Product>> products_ STRATA_GUARDED_BY(mutex_);
  std::vector<Product*> parts_ STRATA_GUARDED_BY(mutex_);  // of the call in progress
};

}  // namespace strata
