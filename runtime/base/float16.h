/// The two 16-bit float formats, as bits, to and from float. One set of functions for
/// checkpoints, kernels and tests, so that rounding is the same everywhere.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

constexpr float FloatFromBf16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// Nearest, ties to even; what is too large becomes infinity; NaN stays (a quiet) NaN.
constexpr uint16_t Bf16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

constexpr float FloatFromF16(uint16_t bits) {
  const uint32_t sign = uint32_t{bits} >> 15 << 31;
  const uint32_t exponent = bits >> 10 & 0x1F;
  const uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {  // zero or subnormal: fraction units of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | fraction << 13);
}

/// Nearest, ties to even, subnormals kept; what is too large becomes infinity.
constexpr uint16_t F16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return static_cast<uint16_t>(sign | 0x7E00);
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7C00);  // >= 2^16
  if (magnitude < 0x38800000) {  // < 2^-14: adding 0.5 lets the FPU round to 2^-24
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(shifted) - 0x3F000000));
  }
  const uint32_t rebased = magnitude - ((127 - 15) << 23);
  return static_cast<uint16_t>(sign | (rebased + 0xFFF + (rebased >> 13 & 1)) >> 13);
}

static_assert(FloatFromF16(0x3C00) == 1.0f && F16FromFloat(1.0f) == 0x3C00);
static_assert(FloatFromBf16(0x3F80) == 1.0f && Bf16FromFloat(1.0f) == 0x3F80);

}  // namespace strata
