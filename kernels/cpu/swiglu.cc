// y = silu(gate) * up with silu(x) = x s(x) and s(x) = 1 / (1 + e^-x). For the gradient
// g:
//
//   d gate = g * up * s(gate) * (1 + gate * (1 - s(gate)))        d up = g * silu(gate)
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

/// up becomes silu(gate) * up.
STRATA_VECTORIZE void ForwardRow(float* __restrict up, const float* __restrict gate,
                                 int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    up[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
  }
}

/// gate and up become their gradients.
STRATA_VECTORIZE void BackwardRow(float* __restrict gate, float* __restrict up,
                                  const float* __restrict gradient, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    const float x = gate[i];
    const float s = 1.0f / (1.0f + Exp(-x));
    gate[i] = gradient[i] * up[i] * s * (1.0f + x * (1.0f - s));
    up[i] = gradient[i] * (x * s);
  }
}

}  // namespace

void Compute(ThreadPool& pool, const SwiGluForward& op) {
  pool.RunRanges(op.rows, RowGrain(op.width), [&](int64_t begin, int64_t end) {
    float* const gate = ThreadScratch(2 * op.width).data();
    float* const up = gate + op.width;
    for (int64_t row = begin; row < end; ++row) {
      LoadRow(gate, op.gate, op.dtype, row * op.row_stride, op.width);
      LoadRow(up, op.up, op.dtype, row * op.row_stride, op.width);
      ForwardRow(up, gate, op.width);
      StoreRow(op.output, op.dtype, row * op.width, up, op.width);
    }
  });
}

void Compute(ThreadPool& pool, const SwiGluBackward& op) {
  pool.RunRanges(op.rows, RowGrain(op.width), [&](int64_t begin, int64_t end) {
    float* const gate = ThreadScratch(3 * op.width).data();
    float* const up = gate + op.width;
    float* const gradient = up + op.width;
    for (int64_t row = begin; row < end; ++row) {
      LoadRow(gate, op.gate, op.dtype, row * op.row_stride, op.width);
      LoadRow(up, op.up, op.dtype, row * op.row_stride, op.width);
      LoadRow(gradient, op.output_gradient, op.dtype, row * op.width, op.width);
      BackwardRow(gate, up, gradient, op.width);
      StoreRow(op.gate_gradient, op.dtype, row * op.row_stride, gate, op.width);
      StoreRow(op.up_gradient, op.dtype, row * op.row_stride, up, op.width);
    }
  });
}

}  // namespace strata
