/// A Stream over a non-blocking CUDA stream and a ring of events.
///
/// Ticket k is recorded in event k % depth. An event is recorded again only after its
/// old ticket is complete, so a ticket that has left the ring needs no waiting for.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda_host_memory.h"
#include "runtime/device/device.h"

namespace strata {

class CudaStream final : public Stream {
 public:
  /// `device` and `host_memory` are borrowed and must outlive the stream.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Create(
      const Device& device, int ordinal, const CudaHostMemory& host_memory,
      absl::string_view name, int32_t depth);
  /// Waits for submitted work, whose memory may be freed next.
  ~CudaStream() override;

  const Device& device() const override { return device_; }
  void Wait(const Stream& other, Ticket ticket) override;
  Ticket Copy(std::byte* target, const std::byte* source, int64_t size_bytes) override;
  Ticket Run(Task task) override;
  absl::StatusOr<Ticket> Completed() override;
  absl::Status Synchronize() override;
  void* native_handle() const override { return stream_; }

 private:
  CudaStream(const Device& device, int ordinal, const CudaHostMemory& host_memory,
             absl::string_view name);
  cudaEvent_t EventOf(Ticket ticket) const { return events_[ticket % events_.size()]; }
  absl::Status StartCopy(std::byte* target, const std::byte* source,
                         int64_t size_bytes);
  /// Takes the next ticket; blocks if it would be the depth + first pending one.
  Ticket BeginWork();
  /// Makes `ticket` complete when all work so far is; not after a failure.
  void Record(Ticket ticket);
  /// Keeps the first error, if `status` is one, with where it happened.
  void Fail(const absl::Status& status, Ticket ticket);

  const Device& device_;
  const int ordinal_;
  const CudaHostMemory& host_memory_;
  const std::string name_;
  cudaStream_t stream_ = nullptr;
  std::vector<cudaEvent_t> events_;
  Ticket submitted_ = 0;
  Ticket completed_ = 0;
  absl::Status status_;  // the first error
};

}  // namespace strata
