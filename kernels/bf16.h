/// BF16 numbers as their bits: the upper half of an fp32. The functions of
/// runtime/base/float16.h in a form that vectorises and that CUDA compiles, too.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace strata {

STRATA_HOST_DEVICE constexpr uint32_t BitsOfFloat(float value) {
  return __builtin_bit_cast(uint32_t, value);
}

STRATA_HOST_DEVICE constexpr float FloatOfBits(uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}

/// Exact.
STRATA_HOST_DEVICE constexpr float FloatOfBf16(uint16_t bf16) {
  return FloatOfBits(static_cast<uint32_t>(bf16) << 16);
}

/// To nearest, ties to even; a NaN stays one (its payload may change).
STRATA_HOST_DEVICE constexpr uint16_t Bf16OfFloat(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return static_cast<uint16_t>(is_nan ? quiet_nan : rounded);
}
static_assert(Bf16OfFloat(1.0f) == 0x3F80 && FloatOfBf16(0x3F80) == 1.0f);

}  // namespace strata
