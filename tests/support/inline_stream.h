/// A stream whose work is done when the submitting call returns: for tests of kernels
/// and layers, which need a stream and no concurrency.
#pragma once

#include <cstring>
#include <memory>

#include "runtime/device/cpu_device.h"

namespace strata {

class InlineStream final : public Stream {
 public:
  InlineStream() : device_(CreateCpuDevice({})) {}

  const Device& device() const override { return *device_; }
  void Wait(const Stream&, Ticket) override {}
  Ticket Copy(std::byte* target, const std::byte* source, int64_t size_bytes) override {
    std::memcpy(target, source, static_cast<size_t>(size_bytes));
    return ++submitted_;
  }
  Ticket Run(Task task) override {
    const absl::Status status = task.run(task.context, task.index, *this);
    if (status_.ok()) status_ = status;
    return ++submitted_;
  }
  absl::StatusOr<Ticket> Completed() override {
    if (!status_.ok()) return status_;
    return submitted_;
  }
  absl::Status Synchronize() override { return status_; }

 private:
  std::unique_ptr<CpuDevice> device_;
  Ticket submitted_ = 0;
  absl::Status status_;
};

}  // namespace strata
