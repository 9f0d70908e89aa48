/// Gives the buffers of a scheduled program their addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/program.h"

namespace strata {

/// Sets VirtualBuffer::offset of every used buffer, from `base[tier]` upwards, such
/// that buffers whose lifetimes overlap do not. A lifetime runs from first to last use
/// in the list, and begins early enough that `slots[pool]` consecutive buffers of a
/// pool are disjoint, so that a lane can work ahead. Returns each tier's end.
TierBytes PackBuffers(std::vector<VirtualBuffer>& buffers,
                      const std::vector<int32_t>& slots, const TierBytes& base);

/// Offsets of arenas are multiples of this: tensor alignment on the device, O_DIRECT's
/// on host and nvme.
constexpr int64_t ArenaAlignment(TierKind tier) {
  return tier == TierKind::kDevice ? 256 : 4 * kKiB;
}

}  // namespace strata
