/// Page-locked host memory that the copy engines reach without a bounce copy.
///
/// Resident memory (base/host_memory.h) is registered with CUDA in pieces of at most
/// 1 GiB: one huge registration fails on some drivers and kernels, and holds the
/// process's memory lock for seconds.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/types.h"

namespace strata {

/// The page-locked ranges of one device. Thread-safe.
class CudaHostMemory {
 public:
  static constexpr int64_t kPieceBytes = kGiB;

  /// Zeroed, 4096-byte-aligned, resident and registered. ResourceExhausted if the
  /// machine or the driver refuses; what was taken until then is given back.
  absl::StatusOr<std::byte*> Allocate(int64_t size_bytes);
  void Free(std::span<std::byte> bytes) noexcept;

  /// How many bytes from `address` on one copy may touch: CUDA refuses copies that
  /// straddle two registrations. INT64_MAX if `address` is not in memory from here.
  int64_t ContiguousBytes(const std::byte* address) const;

 private:
  mutable Mutex mutex_;
  std::vector<std::span<std::byte>> ranges_ STRATA_GUARDED_BY(mutex_);
};

}  // namespace strata
