/// AdamW for one element: the one formula of the CPU and the CUDA optimizer, which must
/// give the same bits. Every operation is rounded on its own: the CPU is built with
/// -ffp-contract=off, and on CUDA the _rn intrinsics keep multiply and add apart.
#pragma once

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/ops.h"

namespace strata {
namespace adamw {

#if defined(__CUDA_ARCH__)
__device__ inline float Mul(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float Plus(float a, float b) { return __fadd_rn(a, b); }
__device__ inline float Minus(float a, float b) { return __fsub_rn(a, b); }
__device__ inline float Divide(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline float Root(float a) { return __fsqrt_rn(a); }
#else
inline float Mul(float a, float b) { return a * b; }
inline float Plus(float a, float b) { return a + b; }
inline float Minus(float a, float b) { return a - b; }
inline float Divide(float a, float b) { return a / b; }
inline float Root(float a) { return std::sqrt(a); }
#endif

struct Element {
  float master;
  float moment1;
  float moment2;
};

/// root / s.sqrt_correction2
struct CorrectByDivision {
  STRATA_HOST_DEVICE float operator()(const AdamWScalars& s, float root) const {
    return Divide(root, s.sqrt_correction2);
  }
};

/// The element after one step. `gradient` is as stored: still scaled, not clipped.
/// `correct` is CorrectByDivision or gives the same bits.
template <typename Correct = CorrectByDivision>
STRATA_HOST_DEVICE inline Element Step(const AdamWScalars& s, float gradient,
                                       Element old, Correct correct = {}) {
  const float g = Plus(Mul(s.gradient_scale, gradient), Mul(s.l2, old.master));
  const float m = Plus(Mul(s.beta1, old.moment1), Mul(s.one_minus_beta1, g));
  const float v = Plus(Mul(s.beta2, old.moment2), Mul(s.one_minus_beta2, Mul(g, g)));
  const float denominator = Plus(correct(s, Root(v)), s.epsilon);
  const float decayed = Mul(old.master, s.decay_factor);
  return {Minus(decayed, Divide(Mul(s.step_size, m), denominator)), m, v};
}

}  // namespace adamw
}  // namespace strata
