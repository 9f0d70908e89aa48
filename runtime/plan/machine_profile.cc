#include "runtime/plan/machine_profile.h"

#include <algorithm>

namespace strata {
namespace {

using LaneSet = std::array<bool, kLaneCount>;
using LaneValues = std::array<double, kLaneCount>;

/// Something that lanes share: the weighted sum of their shares cannot exceed 1. A
/// lane's share is the fraction of its rate when it works alone.
struct Resource {
  LaneValues weight{};  // 0: the lane does not use it
};

constexpr size_t At(Lane lane) { return static_cast<size_t>(lane); }

LaneValues SoloRates(const MachineProfile& profile) {
  LaneValues solo{};
  solo[At(Lane::kCompute)] = profile.compute_flops;
  solo[At(Lane::kHostToDevice)] = profile.host_to_device;
  solo[At(Lane::kDeviceToHost)] = profile.device_to_host;
  solo[At(Lane::kNvmeRead)] = profile.nvme_read;
  solo[At(Lane::kNvmeWrite)] = profile.nvme_write;
  solo[At(Lane::kCpu)] = std::min(profile.cpu_update, profile.host_memory);
  return solo;
}

std::array<Resource, 3> SharedResources(const MachineProfile& profile,
                                        const LaneValues& solo, const LaneSet& active) {
  std::array<Resource, 3> resources{};
  auto& [link, memory, drive] = resources;
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost}) {
    link.weight[At(lane)] = solo[At(lane)] / profile.both_directions;
  }
  for (const Lane lane : {Lane::kHostToDevice, Lane::kDeviceToHost, Lane::kNvmeRead,
                          Lane::kNvmeWrite, Lane::kCpu}) {
    memory.weight[At(lane)] = solo[At(lane)] / profile.host_memory;
  }
  if (active[At(Lane::kNvmeRead)] && active[At(Lane::kNvmeWrite)]) {
    for (const Lane lane : {Lane::kNvmeRead, Lane::kNvmeWrite})
      drive.weight[At(lane)] = 1 / DriveShares(profile);
  }
  return resources;
}

// How far the shares of all `growing` lanes can be raised together until the resource
// is full.
double Headroom(const Resource& resource, const LaneValues& share,
                const LaneSet& growing) {
  double used = 0, growth = 0;
  for (size_t lane = 0; lane < kLaneCount; ++lane) {
    used += resource.weight[lane] * share[lane];
    if (growing[lane]) growth += resource.weight[lane];
  }
  return growth > 0 ? std::max(0.0, 1 - used) / growth : 1;
}

int64_t BytesTouched(const Plan& plan, const Op& op) {
  int64_t bytes = 0;
  for (const Access& access : plan.Accesses(op)) bytes += access.size_bytes;
  return bytes;
}

}  // namespace

double DriveShares(const MachineProfile& profile) {
  return 2 * profile.nvme_both / (profile.nvme_read + profile.nvme_write);
}

OpCost CostOf(const PlanSet& set, const Plan& plan, const Op& op,
              const MachineProfile& profile) {
  OpCost cost;
  cost.overhead_seconds = profile.op_overhead_seconds;
  const double bytes = static_cast<double>(BytesTouched(plan, op));
  switch (op.code) {
    case OpCode::kForward:
      cost.work = set.trace.layers[op.layer].forward_flops;
      break;
    case OpCode::kBackward:
      cost.work = set.trace.layers[op.layer].backward_flops;
      break;
    case OpCode::kZero:
    case OpCode::kReduce:
    case OpCode::kUpdate:
    case OpCode::kSpeculate:
    case OpCode::kAdvance:
      cost.work = bytes;
      break;
    case OpCode::kCopy:
    case OpCode::kRead:
    case OpCode::kWrite:
      // A transfer touches each byte at both ends, and one end may be host memory.
      cost.work =
          op.lane == Lane::kCpu || op.lane == Lane::kCompute ? bytes : bytes / 2;
      break;
  }
  const bool computes = op.code == OpCode::kForward || op.code == OpCode::kBackward;
  if (op.lane != Lane::kCompute) {
    cost.host_bytes = cost.work;
    // In the lane's unit, bytes at the rate of an update.
    if (op.code == OpCode::kAdvance) {
      cost.work *= profile.cpu_update / profile.cpu_advance;
    }
  } else if (!computes) {
    // Bound by memory: as much arithmetic as the lane would have done meanwhile.
    cost.work *= profile.compute_flops / profile.device_memory;
  }
  return cost;
}

std::array<double, kLaneCount> LaneRates(const MachineProfile& profile,
                                         const std::array<bool, kLaneCount>& active) {
  const LaneValues solo = SoloRates(profile);
  const std::array<Resource, 3> resources = SharedResources(profile, solo, active);
  LaneValues share{};
  LaneSet growing = active;
  // Raise all shares together; freeze the lanes whose own or shared resource is full.
  constexpr double kFull = 1e-9;
  while (std::find(growing.begin(), growing.end(), true) != growing.end()) {
    double step = 1;
    for (const Resource& resource : resources) {
      step = std::min(step, Headroom(resource, share, growing));
    }
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (growing[lane]) step = std::min(step, 1 - share[lane]);
    }
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (growing[lane]) share[lane] += step;
    }
    LaneSet still = growing;
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (share[lane] >= 1 - kFull) still[lane] = false;
    }
    for (const Resource& resource : resources) {
      if (Headroom(resource, share, growing) > kFull) continue;
      for (size_t lane = 0; lane < kLaneCount; ++lane) {
        if (resource.weight[lane] > 0) still[lane] = false;
      }
    }
    growing = still;
  }
  LaneValues rates{};
  for (size_t lane = 0; lane < kLaneCount; ++lane)
    rates[lane] = share[lane] * solo[lane];
  return rates;
}

}  // namespace strata
