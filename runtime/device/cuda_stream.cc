#include "runtime/device/cuda_stream.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/device/cuda_status.h"

namespace strata {

CudaStream::CudaStream(const Device& device, int ordinal,
                       const CudaHostMemory& host_memory, absl::string_view name)
    : device_(device), ordinal_(ordinal), host_memory_(host_memory), name_(name) {}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(
    const Device& device, int ordinal, const CudaHostMemory& host_memory,
    absl::string_view name, int32_t depth) {
  STRATA_CHECK(depth > 0);
  std::unique_ptr<CudaStream> stream(
      new CudaStream(device, ordinal, host_memory, name));
  const std::string context = absl::StrCat(device.name(), ", new stream ", name);
  STRATA_CUDA_RETURN_IF_ERROR(cudaSetDevice(ordinal), context);
  STRATA_CUDA_RETURN_IF_ERROR(
      cudaStreamCreateWithFlags(&stream->stream_, cudaStreamNonBlocking), context);
  stream->events_.reserve(depth);
  for (int32_t i = 0; i < depth; ++i) {
    cudaEvent_t event = nullptr;
    STRATA_CUDA_RETURN_IF_ERROR(
        cudaEventCreateWithFlags(&event,
                                 cudaEventDisableTiming | cudaEventBlockingSync),
        context);
    stream->events_.push_back(event);
  }
  return stream;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  for (cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
  static_cast<void>(cudaGetLastError());
}

void CudaStream::Wait(const Stream& other, Ticket ticket) {
  STRATA_CHECK(&other.device() == &device_);
  const CudaStream& source = static_cast<const CudaStream&>(other);
  STRATA_CHECK(ticket <= source.submitted_);
  if (!status_.ok() || ticket <= source.completed_) return;
  if (!source.status_.ok()) {
    status_ = source.status_;
    return;
  }
  Fail(CudaStatus(cudaStreamWaitEvent(stream_, source.EventOf(ticket)), "wait"),
       submitted_);
}

Ticket CudaStream::Copy(std::byte* target, const std::byte* source,
                        int64_t size_bytes) {
  const Ticket ticket = BeginWork();
  if (status_.ok()) Fail(StartCopy(target, source, size_bytes), ticket);
  Record(ticket);
  return ticket;
}

absl::Status CudaStream::StartCopy(std::byte* target, const std::byte* source,
                                   int64_t size_bytes) {
  while (size_bytes > 0) {
    const int64_t piece = std::min({size_bytes, host_memory_.ContiguousBytes(target),
                                    host_memory_.ContiguousBytes(source)});
    STRATA_CUDA_RETURN_IF_ERROR(
        cudaMemcpyAsync(target, source, piece, cudaMemcpyDefault, stream_),
        absl::StrCat("copy of ", piece, " bytes"));
    target += piece;
    source += piece;
    size_bytes -= piece;
  }
  return absl::OkStatus();
}

Ticket CudaStream::Run(Task task) {
  const Ticket ticket = BeginWork();
  if (!status_.ok()) return ticket;
  // The task launches on the thread's current device, which another device may have
  // set.
  Fail(CudaStatus(cudaSetDevice(ordinal_), "cudaSetDevice"), ticket);
  if (status_.ok()) status_ = task.run(task.context, task.index, *this);
  Record(ticket);
  return ticket;
}

Ticket CudaStream::BeginWork() {
  const Ticket ticket = ++submitted_;
  if (status_.ok() && ticket > events_.size()) {
    const Ticket oldest = ticket - events_.size();
    if (completed_ < oldest) {
      Fail(CudaStatus(cudaEventSynchronize(EventOf(oldest)), "waiting for room"),
           oldest);
      if (status_.ok()) completed_ = oldest;
    }
  }
  return ticket;
}

void CudaStream::Record(Ticket ticket) {
  if (!status_.ok()) return;
  Fail(CudaStatus(cudaEventRecord(EventOf(ticket), stream_), "event record"), ticket);
}

void CudaStream::Fail(const absl::Status& status, Ticket ticket) {
  if (status.ok() || !status_.ok()) return;
  status_ = Annotate(
      status, absl::StrCat(device_.name(), ", stream ", name_, ", ticket ", ticket));
}

absl::StatusOr<Ticket> CudaStream::Completed() {
  while (status_.ok() && completed_ < submitted_) {
    const cudaError_t result = cudaEventQuery(EventOf(completed_ + 1));
    if (result == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      break;
    }
    Fail(CudaStatus(result, "execution"), completed_ + 1);
    if (status_.ok()) ++completed_;
  }
  if (!status_.ok()) return status_;
  return completed_;
}

absl::Status CudaStream::Synchronize() {
  if (!status_.ok()) {
    // Work before the failure may still run, and its memory may be freed after this.
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaGetLastError());
    return status_;
  }
  Fail(CudaStatus(cudaStreamSynchronize(stream_), "execution"), submitted_);
  if (status_.ok()) completed_ = submitted_;
  return status_;
}

}  // namespace strata
