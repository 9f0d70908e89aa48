#include "runtime/device/cuda_device.h"

#include <absl/strings/str_cat.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/device/cuda_host_memory.h"
#include "runtime/device/cuda_status.h"
#include "runtime/device/cuda_stream.h"

namespace strata {
namespace {

/// What cudaMalloc takes from the card at a time. Rounding up to it ourselves also
/// gives every buffer pages, and so an alignment, of its own.
constexpr int64_t kGranuleBytes = 2 * kMiB;
constexpr int64_t kAlignment = 4 * kKiB;

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {}
  ~CudaDevice() override {
    if (zeroing_ != nullptr) static_cast<void>(cudaStreamDestroy(zeroing_));
  }

  absl::Status Start();

  DeviceKind kind() const override { return DeviceKind::kCuda; }
  absl::string_view name() const override { return name_; }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name,
                                                       int32_t depth) override {
    return CudaStream::Create(*this, ordinal_, host_memory_, name, depth);
  }
  int64_t overhead_bytes() const override;
  absl::StatusOr<int64_t> FreeBytes() const override;

 private:
  struct CardMemory {
    size_t free_bytes = 0;
    size_t total_bytes = 0;
  };
  absl::StatusOr<CardMemory> Query() const;
  absl::StatusOr<std::byte*> DoAllocate(MemoryKind kind, int64_t size_bytes) override;
  absl::StatusOr<std::byte*> AllocateOnCard(int64_t size_bytes);
  absl::Status Zero(std::byte* data, int64_t size_bytes);
  void DoFree(MemoryKind kind, std::span<std::byte> bytes) noexcept override;

  const int ordinal_;
  std::string name_;
  CudaHostMemory host_memory_;
  cudaStream_t zeroing_ = nullptr;
  std::atomic<int64_t> buffer_bytes_ = 0;  // on the card, in whole granules
};

absl::Status CudaDevice::Start() {
  name_ = absl::StrCat("cuda:", ordinal_);
  STRATA_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_), name_);  // makes the context
  cudaDeviceProp properties;
  STRATA_CUDA_RETURN_IF_ERROR(cudaGetDeviceProperties(&properties, ordinal_), name_);
  absl::StrAppend(&name_, " ", properties.name);
  return CudaStatus(cudaStreamCreateWithFlags(&zeroing_, cudaStreamNonBlocking), name_);
}

absl::StatusOr<CudaDevice::CardMemory> CudaDevice::Query() const {
  CardMemory memory;
  STRATA_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_), name_);
  STRATA_CUDA_RETURN_IF_ERROR(cudaMemGetInfo(&memory.free_bytes, &memory.total_bytes),
                              absl::StrCat(name_, ": asking for free memory"));
  return memory;
}

int64_t CudaDevice::overhead_bytes() const {
  const absl::StatusOr<CardMemory> memory = Query();
  if (!memory.ok()) return 0;
  const int64_t used = static_cast<int64_t>(memory->total_bytes - memory->free_bytes);
  return std::max<int64_t>(0, used - buffer_bytes_.load());
}

absl::StatusOr<int64_t> CudaDevice::FreeBytes() const {
  STRATA_ASSIGN_OR_RETURN(const CardMemory memory, Query());
  return static_cast<int64_t>(memory.free_bytes) / kGranuleBytes * kGranuleBytes;
}

absl::StatusOr<std::byte*> CudaDevice::DoAllocate(MemoryKind kind, int64_t size_bytes) {
  STRATA_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal_), name_);
  if (kind == MemoryKind::kPinnedHost) return host_memory_.Allocate(size_bytes);
  return AllocateOnCard(size_bytes);
}

absl::StatusOr<std::byte*> CudaDevice::AllocateOnCard(int64_t size_bytes) {
  const int64_t rounded = AlignUp(size_bytes, kGranuleBytes);
  void* data = nullptr;
  const cudaError_t error = cudaMalloc(&data, rounded);
  if (error == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    const absl::StatusOr<int64_t> free_bytes = FreeBytes();
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, ": ", FormatSize(size_bytes), " of device memory asked for, ",
        free_bytes.ok() ? FormatSize(*free_bytes) : "an unknown amount", " free"));
  }
  STRATA_CUDA_RETURN_IF_ERROR(
      error, absl::StrCat(name_, ": allocating ", FormatSize(size_bytes)));
  STRATA_CHECK(reinterpret_cast<uintptr_t>(data) % kAlignment == 0);
  buffer_bytes_ += rounded;
  const absl::Status status = Zero(static_cast<std::byte*>(data), size_bytes);
  if (!status.ok()) {
    DoFree(MemoryKind::kDevice,
           {static_cast<std::byte*>(data), static_cast<size_t>(size_bytes)});
    return status;
  }
  return static_cast<std::byte*>(data);
}

absl::Status CudaDevice::Zero(std::byte* data, int64_t size_bytes) {
  const std::string context = absl::StrCat(name_, ": zeroing a new buffer");
  STRATA_CUDA_RETURN_IF_ERROR(cudaMemsetAsync(data, 0, size_bytes, zeroing_), context);
  return CudaStatus(cudaStreamSynchronize(zeroing_), context);
}

void CudaDevice::DoFree(MemoryKind kind, std::span<std::byte> bytes) noexcept {
  static_cast<void>(cudaSetDevice(ordinal_));
  if (kind == MemoryKind::kPinnedHost) return host_memory_.Free(bytes);
  const absl::Status status = CudaStatus(cudaFree(bytes.data()), name_);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  buffer_bytes_ -= AlignUp(static_cast<int64_t>(bytes.size()), kGranuleBytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int ordinal) {
  int count = 0;
  absl::Status status = CudaStatus(cudaGetDeviceCount(&count), "looking for a GPU");
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat(
        status.message(), "; install NVIDIA's driver, or use the CPU device"));
  }
  if (count == 0) {
    return absl::UnavailableError("looking for a GPU: the driver shows none");
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no cuda:", ordinal, "; GPUs on this machine: ", count));
  }
  auto device = std::make_unique<CudaDevice>(ordinal);
  STRATA_RETURN_IF_ERROR(device->Start());
  return device;
}

}  // namespace strata
