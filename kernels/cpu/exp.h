/// e^x in fp32 by plain arithmetic, so that loops over it vectorise and every machine
/// gives the same bits, whatever its C library does. Within 2 units in the last place.
#pragma once

#include <cstdint>

#include "kernels/bf16.h"

namespace strata {

/// Overflow gives infinity, underflow a denormal or zero, NaN stays NaN.
inline float Exp(float x) {
  // Beyond these the result is 0 or infinity; the comparisons let a NaN pass.
  const float low = x < -104.0f ? -104.0f : x;
  const float bounded = low > 89.0f ? 89.0f : low;

  // x = n ln 2 + r with |r| <= ln(2) / 2. Adding 1.5 * 2^23 rounds to an integer and
  // leaves it in the low bits.
  constexpr float kShift = 12582912.0f;
  const float shifted = bounded * 1.44269504f + kShift;
  const int32_t n = static_cast<int32_t>(BitsOfFloat(shifted) - BitsOfFloat(kShift));
  const float whole = shifted - kShift;
  const float r = (bounded - whole * 0.693359375f) + whole * 2.12194440e-4f;

  // e^r = 1 + r + r^2 p(r): the polynomial of Cephes' expf.
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float exp_r = (p * (r * r) + r) + 1.0f;

  // times 2^n in two steps: n may lie outside of what one exponent can hold.
  const int32_t half = n >> 1;
  const float scale1 = FloatOfBits(static_cast<uint32_t>(half + 127) << 23);
  const float scale2 = FloatOfBits(static_cast<uint32_t>(n - half + 127) << 23);
  return exp_r * scale1 * scale2;
}

}  // namespace strata
