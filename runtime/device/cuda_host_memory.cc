#include "runtime/device/cuda_host_memory.h"

#include <absl/strings/str_cat.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>

#include "runtime/base/host_memory.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata {
namespace {

constexpr int64_t kPieceBytes = CudaHostMemory::kPieceBytes;

void Unregister(std::byte* base, int64_t registered_bytes) {
  for (int64_t begin = 0; begin < registered_bytes; begin += kPieceBytes) {
    const absl::Status status =
        CudaStatus(cudaHostUnregister(base + begin), "giving pinned memory back");
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  }
}

absl::Status Register(std::byte* base, int64_t size_bytes) {
  for (int64_t begin = 0; begin < size_bytes; begin += kPieceBytes) {
    const int64_t piece = std::min(kPieceBytes, size_bytes - begin);
    const cudaError_t error =
        cudaHostRegister(base + begin, piece, cudaHostRegisterPortable);
    if (error == cudaSuccess) continue;
    Unregister(base, begin);
    const absl::Status status = CudaStatus(
        error, absl::StrCat("page-locking ", FormatSize(size_bytes),
                            " of host memory, of which ", FormatSize(begin),
                            " were locked; see `ulimit -l` and free memory"));
    return absl::ResourceExhaustedError(status.message());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::byte*> CudaHostMemory::Allocate(int64_t size_bytes) {
  STRATA_ASSIGN_OR_RETURN(std::byte* const base, MapHostMemory(size_bytes));
  // A child of a fork must not share pages that a copy engine writes.
  madvise(base, static_cast<size_t>(size_bytes), MADV_DONTFORK);
  const std::span<std::byte> bytes(base, static_cast<size_t>(size_bytes));
  if (absl::Status status = Register(base, size_bytes); !status.ok()) {
    UnmapHostMemory(bytes);
    return status;
  }
  MutexLock lock(mutex_);
  ranges_.push_back(bytes);
  return base;
}

void CudaHostMemory::Free(std::span<std::byte> bytes) noexcept {
  {
    MutexLock lock(mutex_);
    std::erase_if(ranges_, [&](const std::span<std::byte>& range) {
      return range.data() == bytes.data();
    });
  }
  Unregister(bytes.data(), static_cast<int64_t>(bytes.size()));
  UnmapHostMemory(bytes);
}

int64_t CudaHostMemory::ContiguousBytes(const std::byte* address) const {
  MutexLock lock(mutex_);
  for (const std::span<std::byte>& range : ranges_) {
    const int64_t offset = address - range.data();
    if (offset < 0 || offset >= static_cast<int64_t>(range.size())) continue;
    const int64_t piece_end = (offset / kPieceBytes + 1) * kPieceBytes;
    return std::min(piece_end, static_cast<int64_t>(range.size())) - offset;
  }
  return INT64_MAX;
}

}  // namespace strata
