#include "tools/tierbench/copy_bench.h"

#include "runtime/base/status.h"

namespace strata {
namespace {

/// One direction, with memory of its own at both ends.
struct Direction {
  Buffer host, device;
  std::unique_ptr<Stream> stream;
};

absl::StatusOr<Direction> Open(Device& device, absl::string_view name,
                               int64_t copy_bytes) {
  Direction direction;
  STRATA_ASSIGN_OR_RETURN(direction.host,
                          device.Allocate(MemoryKind::kPinnedHost, copy_bytes));
  STRATA_ASSIGN_OR_RETURN(direction.device,
                          device.Allocate(MemoryKind::kDevice, copy_bytes));
  STRATA_ASSIGN_OR_RETURN(direction.stream, device.CreateStream(name, 64));
  return direction;
}

}  // namespace

absl::StatusOr<Phase> MeasureLink(Device& device, LinkPath path, int64_t copy_bytes,
                                  TimeBudget budget, const Stop& stop) {
  Direction up, down;
  STRATA_ASSIGN_OR_RETURN(up, Open(device, "host-to-device", copy_bytes));
  STRATA_ASSIGN_OR_RETURN(down, Open(device, "device-to-host", copy_bytes));
  const bool goes_up = path != LinkPath::kDeviceToHost;
  const bool goes_down = path != LinkPath::kHostToDevice;
  const TimedWork work{
      .start =
          [&] {
            if (goes_up) up.stream->Copy(up.device.data(), up.host.data(), copy_bytes);
            if (goes_down) {
              down.stream->Copy(down.host.data(), down.device.data(), copy_bytes);
            }
            return absl::OkStatus();
          },
      .finish =
          [&] {
            STRATA_RETURN_IF_ERROR(up.stream->Synchronize());
            return down.stream->Synchronize();
          }};
  STRATA_ASSIGN_OR_RETURN(const std::vector<double> times,
                          TimeWork(work, budget, stop));
  Phase phase{.name = path == LinkPath::kBoth           ? "both"
                      : path == LinkPath::kHostToDevice ? "host_to_device"
                                                        : "device_to_host",
              .label = path == LinkPath::kBoth ? "host <-> device, both at once"
                       : path == LinkPath::kHostToDevice ? "host to device"
                                                         : "device to host"};
  const double bytes = static_cast<double>(copy_bytes) * (goes_up + goes_down);
  std::vector<double> rates;
  for (const double seconds : times) {
    rates.push_back(bytes / seconds);
    phase.seconds += seconds;
  }
  phase.bytes = bytes * static_cast<double>(times.size());
  phase.params["copy_bytes"] = copy_bytes;
  phase.params["device"] = std::string(device.name());
  SetSamples(phase, std::move(rates));
  return phase;
}

}  // namespace strata
