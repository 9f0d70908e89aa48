/// What a device computes: the real kernels, on the shapes of a 7B model where they
/// fit. One class for the CPU and for a card: work is launched on a stream and awaited.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "runtime/device/device.h"
#include "tools/tierbench/copy_load.h"
#include "tools/tierbench/phase.h"
#include "tools/tierbench/stop.h"
#include "tools/tierbench/timing.h"

namespace strata {

/// Sizes of the layers that are measured.
struct KernelShapes {
  int64_t sequences = 4, length = 2048;
  int64_t hidden = 4096, inner = 11008, heads = 32, kv_heads = 32, head_dim = 128;
  int64_t rows() const { return sequences * length; }

  /// For a card, and for a CPU, which is a hundred times slower.
  static KernelShapes ForCuda() { return {}; }
  static KernelShapes ForCpu();
};

/// One update of so many parameters, over and over.
struct UpdateWork {
  int64_t parameters = 0;
  bool advances = false;  // the fused form
  /// Copies that run meanwhile, or null: params["copies_gbps"] says how fast.
  const CopyLoad* load = nullptr;
};
/// Bytes in memory, and touched, for each parameter.
constexpr int64_t UpdateBytes(bool advances) { return advances ? 18 : 14; }

/// So many that every pass comes from memory and not from a cache: 4 GiB or 8 times the
/// last level of all sockets, if a quarter of the available memory allows that.
int64_t UncachedParameters();

class KernelBench {
 public:
  /// `device` outlives it. `threads`: of CPU kernels.
  static absl::StatusOr<std::unique_ptr<KernelBench>> Create(Device& device,
                                                             int threads);

  /// "cpu_update" or "device_update": AdamW on bf16 weights with the exact master, as
  /// training runs it; "cpu_advance" and "device_advance": two steps in one pass. Bytes
  /// are those read and written.
  absl::StatusOr<Phase> MeasureUpdate(const UpdateWork& work, TimeBudget budget,
                                      const Stop& stop);

  /// One phase for each product of a layer, "matmul qkv" and so on, bf16.
  absl::StatusOr<std::vector<Phase>> MeasureMatmuls(const KernelShapes& shapes,
                                                    TimeBudget budget,
                                                    const Stop& stop);

  /// "attention" and "attention gradient", causal, bf16.
  absl::StatusOr<std::vector<Phase>> MeasureAttention(const KernelShapes& shapes,
                                                      TimeBudget budget,
                                                      const Stop& stop);

  /// Seconds from submitting a copy of a page to its seen completion.
  absl::StatusOr<double> MeasureOverhead(const Stop& stop);

 private:
  struct Cost {
    double flop = 0;
    double bytes = 0;
  };
  KernelBench(Device& device, std::unique_ptr<Stream> stream,
              std::unique_ptr<Kernels> kernels)
      : device_(device), stream_(std::move(stream)), kernels_(std::move(kernels)) {}

  /// Random numbers on the device, until FreeAll().
  absl::StatusOr<void*> Values(int64_t count, DType dtype);
  absl::StatusOr<std::byte*> Zeros(int64_t size_bytes);
  void FreeAll() { buffers_.clear(); }
  template <typename Op>
  absl::StatusOr<Phase> Measure(Phase phase, Cost cost, const Op& op, TimeBudget budget,
                                const Stop& stop);
  absl::StatusOr<Phase> MeasureMatmul(Phase phase, Matmul op, TimeBudget budget,
                                      const Stop& stop);

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<Buffer> buffers_;
};

}  // namespace strata
