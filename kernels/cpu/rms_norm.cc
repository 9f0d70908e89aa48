// y = x / rms(x) * w with rms(x) = sqrt(mean(x^2) + epsilon), row by row. With the
// normalised row n = x / rms(x) and the gradient g of y:
//
//   dx = (g * w - n * mean(g * w * n)) / rms(x)        dw = sum over rows of g * n
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

STRATA_VECTORIZE void ScaleRow(float* __restrict row, const float* __restrict weight,
                               float inverse_rms, int64_t width) {
  for (int64_t i = 0; i < width; ++i) row[i] = row[i] * inverse_rms * weight[i];
}

/// normalised = x / rms(x); partial += g * normalised; gradient = g * w.
STRATA_VECTORIZE void WeightGradientRow(float* __restrict normalised,
                                        float* __restrict gradient,
                                        float* __restrict partial,
                                        const float* __restrict weight,
                                        float inverse_rms, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    normalised[i] *= inverse_rms;
    partial[i] += gradient[i] * normalised[i];
    gradient[i] *= weight[i];
  }
}

STRATA_VECTORIZE void InputGradientRow(float* __restrict sum,
                                       const float* __restrict gradient,
                                       const float* __restrict normalised, float mean,
                                       float inverse_rms, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    sum[i] += (gradient[i] - normalised[i] * mean) * inverse_rms;
  }
}

STRATA_VECTORIZE void AddTo(float* __restrict target, const float* __restrict values,
                            int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] += values[i];
}

/// Rows [begin, end) of the backward pass; their part of the weight's gradient goes to
/// partial, [width].
void BackwardRows(const RmsNormBackward& op, int64_t begin, int64_t end,
                  float* partial) {
  const int64_t width = op.width;
  float* const normalised = ThreadScratch(4 * width).data();
  float* const gradient = normalised + width;
  float* const weight = gradient + width;
  float* const sum = weight + width;
  LoadRow(weight, op.weight, op.dtype, 0, width);
  std::fill_n(partial, width, 0.0f);
  for (int64_t row = begin; row < end; ++row) {
    const float inverse_rms = op.inverse_rms[row];
    const int64_t start = op.groups.Start(row, width);
    LoadRow(normalised, op.input, op.dtype, start, width);
    LoadRow(gradient, op.output_gradient, op.dtype, start, width);
    WeightGradientRow(normalised, gradient, partial, weight, inverse_rms, width);
    const float mean = Dot(gradient, normalised, width) / static_cast<float>(width);
    if (op.residual_gradient != nullptr) {
      LoadRow(sum, op.residual_gradient, op.dtype, start, width);
    } else {
      std::fill_n(sum, width, 0.0f);
    }
    InputGradientRow(sum, gradient, normalised, mean, inverse_rms, width);
    StoreRow(op.input_gradient, op.dtype, start, sum, width);
  }
}

}  // namespace

void Compute(ThreadPool& pool, const RmsNormForward& op) {
  const int64_t width = op.width;
  pool.RunRanges(op.rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    float* const row = ThreadScratch(2 * width).data();
    float* const weight = row + width;
    LoadRow(weight, op.weight, op.dtype, 0, width);
    for (int64_t r = begin; r < end; ++r) {
      const int64_t start = op.groups.Start(r, width);
      LoadRow(row, op.input, op.dtype, start, width);
      const float mean = Dot(row, row, width) / static_cast<float>(width);
      const float inverse_rms = 1.0f / std::sqrt(mean + op.epsilon);
      op.inverse_rms[r] = inverse_rms;
      ScaleRow(row, weight, inverse_rms, width);
      StoreRow(op.output, op.dtype, start, row, width);
    }
  });
}

void Compute(ThreadPool& pool, const RmsNormBackward& op) {
  const int64_t block_rows = CeilDiv(op.rows, RowPartials(op.rows));
  float* const partials = reinterpret_cast<float*>(op.workspace);
  pool.RunRanges(op.rows, block_rows, [&](int64_t begin, int64_t end) {
    BackwardRows(op, begin, end, partials + begin / block_rows * op.width);
  });
  if (op.weight_accumulator == nullptr) return;
  for (int64_t block = 0; block < CeilDiv(op.rows, block_rows); ++block) {
    AddTo(op.weight_accumulator, partials + block * op.width, op.width);
  }
}

}  // namespace strata
