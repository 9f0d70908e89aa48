/// What one operation costs between submitting and its seen completion, and how fast
/// copies go: on the device that is there, a card or the CPU playing one.

#include <benchmark/benchmark.h>

#include <memory>

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda_device.h"

namespace strata {
namespace {

Device& TheDevice() {
  static auto* const device = [] {
    absl::StatusOr<std::unique_ptr<Device>> cuda = CreateCudaDevice(0);
    if (cuda.ok()) return cuda->release();
    return static_cast<Device*>(
        CreateCpuDevice({.device_bytes = 4 * kGiB, .pinned_host_bytes = 4 * kGiB})
            .release());
  }();
  return *device;
}

enum Direction { kUp, kDown, kBothWays };

void Copies(benchmark::State& state, Direction direction) {
  Device& device = TheDevice();
  const int64_t bytes = state.range(0);
  auto host = device.Allocate(MemoryKind::kPinnedHost, 2 * bytes);
  auto memory = device.Allocate(MemoryKind::kDevice, 2 * bytes);
  auto up = device.CreateStream("up", 64), down = device.CreateStream("down", 64);
  STRATA_CHECK(host.ok() && memory.ok() && up.ok() && down.ok());
  for (auto _ : state) {
    if (direction != kDown) (*up)->Copy(memory->data(), host->data(), bytes);
    if (direction != kUp) {
      (*down)->Copy(host->data() + bytes, memory->data() + bytes, bytes);
    }
    STRATA_CHECK((*up)->Synchronize().ok() && (*down)->Synchronize().ok());
  }
  state.SetBytesProcessed(state.iterations() * bytes *
                          (direction == kBothWays ? 2 : 1));
  state.SetLabel(std::string(device.name()));
}

BENCHMARK_CAPTURE(Copies, host_to_device, kUp)
    ->Arg(4 * kKiB)
    ->Arg(kMiB)
    ->Arg(64 * kMiB)
    ->UseRealTime();
BENCHMARK_CAPTURE(Copies, device_to_host, kDown)
    ->Arg(4 * kKiB)
    ->Arg(kMiB)
    ->Arg(64 * kMiB)
    ->UseRealTime();
BENCHMARK_CAPTURE(Copies, both, kBothWays)->Arg(64 * kMiB)->UseRealTime();

}  // namespace
}  // namespace strata

BENCHMARK_MAIN();
