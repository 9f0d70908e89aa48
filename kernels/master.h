/// The lossless fp32 master of a BF16 weight: the weight that layers read, and 16 bits
/// that turn it back into the fp32 number. Together 4 bytes, as an fp32 copy alone
/// would take, and the weight need not be stored twice. Shared by CPU and CUDA.
///
/// The weight is the master rounded to nearest, ties away from zero (ties to even would
/// make two masters share one pair). Every one of the 2^32 patterns survives, but at
/// the edge the weight lies: finite masters of magnitude from 0x7F7F8000 up give an
/// infinite one, and some NaNs a finite one. The optimizer refuses magnitudes from
/// kBadMaster* up.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace strata {

struct SplitMaster {
  uint16_t weight;    // BF16
  int16_t remainder;  // what to add to weight << 16
};

STRATA_HOST_DEVICE constexpr SplitMaster Split(uint32_t bits) {
  return {static_cast<uint16_t>((bits + 0x8000) >> 16),
          static_cast<int16_t>(static_cast<uint16_t>(bits))};
}

STRATA_HOST_DEVICE constexpr uint32_t Join(uint16_t weight, int16_t remainder) {
  return (static_cast<uint32_t>(weight) << 16) + static_cast<uint32_t>(remainder);
}

/// Magnitudes from here up are not finite, or would not be finite as a BF16 weight.
inline constexpr uint32_t kBadMasterF32 = 0x7F800000;
inline constexpr uint32_t kBadMasterBf16 = 0x7F7F8000;

STRATA_HOST_DEVICE constexpr uint32_t MagnitudeBits(uint32_t bits) {
  return bits & 0x7FFFFFFF;
}

static_assert(Join(Split(0x3F80C000).weight, Split(0x3F80C000).remainder) ==
              0x3F80C000);
static_assert(Split(0x3F80C000).weight == 0x3F81 && Split(0x3F807FFF).weight == 0x3F80);

}  // namespace strata
