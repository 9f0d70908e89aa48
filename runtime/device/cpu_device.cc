#include "runtime/device/cpu_device.h"

#include <absl/strings/str_cat.h>
#include <pthread.h>

#include <array>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "runtime/base/host_memory.h"
#include "runtime/base/mutex.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/device/work_queues.h"

namespace strata {
namespace {

class CpuStream final : public Stream {
 public:
  CpuStream(const Device& device, WorkQueues& queues, absl::string_view name,
            int32_t depth, CpuDeviceOptions::Mode mode)
      : device_(device), queues_(queues), queue_(queues.Open(*this, depth)) {
    if (mode == CpuDeviceOptions::Mode::kManual) return;
    worker_ = std::thread([this] { queues_.Serve(queue_); });
    // For debuggers; the kernel keeps 15 characters.
    pthread_setname_np(worker_.native_handle(),
                       std::string(name.substr(0, 15)).c_str());
  }
  ~CpuStream() override {
    queues_.Close(queue_);
    if (worker_.joinable()) worker_.join();
  }

  const Device& device() const override { return device_; }
  WorkQueue& queue() const { return queue_; }

  void Wait(const Stream& other, Ticket ticket) override {
    STRATA_CHECK(&other.device() == &device_);
    next_.AddWait(static_cast<const CpuStream&>(other).queue(), ticket);
  }
  Ticket Copy(std::byte* target, const std::byte* source, int64_t size_bytes) override {
    next_.target = target;
    next_.source = source;
    next_.size_bytes = size_bytes;
    return Submit();
  }
  Ticket Run(Task task) override {
    STRATA_CHECK(task.run != nullptr);
    next_.task = task;
    return Submit();
  }
  absl::StatusOr<Ticket> Completed() override { return WorkQueues::Completed(queue_); }
  absl::Status Synchronize() override { return queues_.Synchronize(queue_); }

 private:
  Ticket Submit() {
    const Ticket ticket = queues_.Submit(queue_, next_);
    next_.task = {};
    next_.wait_count = 0;
    return ticket;
  }

  const Device& device_;
  WorkQueues& queues_;
  WorkQueue& queue_;
  Work next_;  // collects the waits of the work that is submitted next
  std::thread worker_;
};

class CpuDeviceImpl final : public CpuDevice {
 public:
  explicit CpuDeviceImpl(const CpuDeviceOptions& options)
      : mode_(options.mode),
        budget_bytes_({options.device_bytes, options.pinned_host_bytes}),
        queues_(options.mode == CpuDeviceOptions::Mode::kManual
                    ? WorkQueues::Mode::kManual
                    : WorkQueues::Mode::kThreads) {}
  ~CpuDeviceImpl() override {
    MutexLock lock(mutex_);
    STRATA_CHECK(used_bytes_[0] == 0 && used_bytes_[1] == 0);
  }

  DeviceKind kind() const override { return DeviceKind::kCpu; }
  absl::string_view name() const override { return "cpu"; }

  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name,
                                                       int32_t depth) override {
    try {
      return std::make_unique<CpuStream>(*this, queues_, name, depth, mode_);
    } catch (const std::system_error& error) {  // of std::thread
      return absl::ResourceExhaustedError(
          absl::StrCat("start the worker of stream '", name, "': ", error.what()));
    }
  }

  absl::StatusOr<int64_t> FreeBytes() const override {
    MutexLock lock(mutex_);
    return budget_bytes_[0] - used_bytes_[0];
  }

  std::vector<Stream*> RunnableStreams() override {
    STRATA_CHECK(mode_ == CpuDeviceOptions::Mode::kManual);
    std::vector<Stream*> streams;
    for (WorkQueue* queue : queues_.Runnable()) streams.push_back(&queue->stream);
    return streams;
  }
  void RunOne(Stream& stream) override {
    STRATA_CHECK(&stream.device() == this);
    queues_.RunOne(static_cast<CpuStream&>(stream).queue());
  }

 private:
  absl::StatusOr<std::byte*> DoAllocate(MemoryKind kind, int64_t size_bytes) override {
    const size_t index = static_cast<size_t>(kind);
    MutexLock lock(mutex_);
    const int64_t free_bytes = budget_bytes_[index] - used_bytes_[index];
    if (size_bytes > free_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "allocate ", FormatSize(size_bytes), " of ",
          kind == MemoryKind::kDevice ? "device" : "pinned host",
          " memory on cpu: only ", FormatSize(free_bytes), " of its budget of ",
          FormatSize(budget_bytes_[index]), " are free"));
    }
    STRATA_ASSIGN_OR_RETURN(std::byte* const data, MapHostMemory(size_bytes));
    used_bytes_[index] += size_bytes;
    return data;
  }
  void DoFree(MemoryKind kind, std::span<std::byte> bytes) noexcept override {
    UnmapHostMemory(bytes);
    MutexLock lock(mutex_);
    used_bytes_[static_cast<size_t>(kind)] -= static_cast<int64_t>(bytes.size());
  }

  const CpuDeviceOptions::Mode mode_;
  const std::array<int64_t, 2> budget_bytes_;  // by MemoryKind
  mutable Mutex mutex_;
  std::array<int64_t, 2> used_bytes_ STRATA_GUARDED_BY(mutex_) = {0, 0};
  WorkQueues queues_;
};

}  // namespace

std::unique_ptr<CpuDevice> CreateCpuDevice(const CpuDeviceOptions& options) {
  return std::make_unique<CpuDeviceImpl>(options);
}

}  // namespace strata
