/// Times operations on a card against its own ceilings.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "runtime/device/device.h"

namespace strata {

/// What an operation cannot do without: floating-point operations, and bytes of device
/// memory with every input read once and every output written once.
struct Work {
  double operations = 0;
  double bytes = 0;
};

/// Device, data and clock of a benchmark. Measures the ceilings when it is made. Ends
/// the process, with the reason, on any error.
class KernelTimer {
 public:
  /// Only operations whose name contains `filter` are run.
  explicit KernelTimer(std::string filter);

  /// `count` normally distributed numbers on the card, until FreeAll().
  void* Values(int64_t count, DType dtype);
  /// Spread over [0, limit).
  int32_t* Integers(int64_t count, int32_t limit);
  /// Zeroed.
  std::byte* Allocate(int64_t size_bytes);
  std::byte* MatmulWorkspace() { return Allocate(kernels_->matmul_workspace_bytes()); }
  void FreeAll() { buffers_.clear(); }

  template <typename Op>
  void Measure(const std::string& name, Work work, const Op& op) {
    if (name.find(filter_) == std::string::npos) return;
    Report(name, work, MedianSeconds([&] { return kernels_->Run(*stream_, op); }));
  }

 private:
  double MedianSeconds(const std::function<absl::Status()>& run);
  void MeasureCeilings();
  void Report(const std::string& name, Work work, double seconds) const;

  const std::string filter_;
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Stream> stream_;
  const std::unique_ptr<Kernels> kernels_;
  const std::vector<std::byte> floats_;  // random, repeated over Values
  const std::vector<std::byte> halves_;
  std::vector<Buffer> buffers_;
  double peak_bytes_ = 0;       // per second
  double peak_operations_ = 0;  // per second
};

}  // namespace strata
