/// A Device owns memory and executes work in stream order.
///
/// There are two implementations. CudaDevice is a thin layer over the CUDA runtime.
/// CpuDevice is not a no-op: each of its streams is a FIFO with its own worker, so that a
/// missing wait is a failing test on a laptop and not a rare corruption on a GPU; in
/// manual mode nothing runs until the test says so, in whatever legal order it chooses.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "runtime/storage/store.h"  // Ticket

namespace strata {

class Device;
class Stream;

enum class DeviceKind : uint8_t { kCpu, kCuda };

enum class MemoryKind : uint8_t {
  kDevice,      ///< Next to the compute units; on a CpuDevice ordinary memory.
  kPinnedHost,  ///< Page-locked, 4 KiB-aligned host memory: fit for DMA and O_DIRECT.
};

/// Owning, move-only memory. The Device must outlive it. A moved-from one is empty.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { Swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer(std::move(other)).Swap(*this);
    return *this;
  }
  ~Buffer();

  /// Dereferenceable on the host unless kind() is kDevice on a CUDA device.
  std::span<std::byte> bytes() const { return bytes_; }
  std::byte* data() const { return bytes_.data(); }
  int64_t size_bytes() const { return static_cast<int64_t>(bytes_.size()); }
  MemoryKind kind() const { return kind_; }

 private:
  friend class Device;
  Buffer(Device* device, MemoryKind kind, std::span<std::byte> bytes)
      : device_(device), kind_(kind), bytes_(bytes) {}
  void Swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(kind_, other.kind_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;  // not owned
  MemoryKind kind_ = MemoryKind::kDevice;
  std::span<std::byte> bytes_;
};

/// One piece of computation: `run(context, index, stream)`. A plain function pointer, so
/// that submitting allocates nothing. On a CUDA device it runs at once, on the caller's
/// thread, and launches its kernels on `stream`; on a CPU device it runs in the stream's
/// worker when its turn comes and computes there and then.
struct Task {
  absl::Status (*run)(void* context, uint32_t index, Stream& stream) = nullptr;
  void* context = nullptr;  // not owned; outlives the task
  uint32_t index = 0;
};

/// Work in submission order. Not thread-safe: one thread submits and asks. Submitting
/// never blocks unless `depth` pieces of work are pending, and never allocates.
class Stream {
 public:
  virtual ~Stream() = default;
  /// The device that made this stream.
  virtual const Device& device() const = 0;

  /// Work submitted to this stream from now on starts only after `other`, a stream of the
  /// same device, has completed `ticket`. Never blocks the caller.
  virtual void Wait(const Stream& other, Ticket ticket) = 0;

  /// Copies between any two addresses that the device can reach. Both ranges stay valid
  /// and untouched until the returned ticket completes.
  virtual Ticket Copy(std::byte* target, const std::byte* source, int64_t size_bytes) = 0;
  virtual Ticket Run(Task task) = 0;

  /// The last ticket such that it and all before it are complete; never blocks. After a
  /// failure: the first error, for ever; later work of the stream is not executed.
  virtual absl::StatusOr<Ticket> Completed() = 0;
  /// Blocks until all submitted work is complete. For start, shutdown and tests only.
  virtual absl::Status Synchronize() = 0;

  /// cudaStream_t of a CUDA stream, nullptr of a CPU stream. For kernels only.
  virtual void* native_handle() const { return nullptr; }
};

/// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual absl::string_view name() const = 0;  // "cpu", "cuda:0 NVIDIA H200"

  /// Zeroed memory, aligned to 4096 bytes. ResourceExhausted if it does not fit, with what
  /// was asked for and what is there. `size_bytes` is not negative; 0 gives an empty one.
  absl::StatusOr<Buffer> Allocate(MemoryKind kind, int64_t size_bytes);

  /// `depth`: the most pieces of work that may be pending at once.
  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name,
                                                               int32_t depth) = 0;

  /// What this process holds on the device by the driver's count beyond Allocate's
  /// buffers: context, modules, libraries. 0 on a CPU device.
  virtual int64_t overhead_bytes() const { return 0; }
  /// Memory of the device that is free for this process now.
  virtual absl::StatusOr<int64_t> FreeBytes() const = 0;

 private:
  friend class Buffer;
  virtual absl::StatusOr<std::byte*> DoAllocate(MemoryKind kind, int64_t size_bytes) = 0;
  virtual void DoFree(MemoryKind kind, std::span<std::byte> bytes) noexcept = 0;
};

}  // namespace strata
