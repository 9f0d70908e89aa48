// A head's pair (a, b) = (x[j], x[j + head_dim/2]) turns by the angle of its position:
// (a cos - b sin, b cos + a sin). Turning back swaps the sign of the sine.
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

STRATA_VECTORIZE void Turn(float* __restrict first, float* __restrict second,
                           const float* __restrict cosines,
                           const float* __restrict sines, float sign, int64_t pairs) {
  for (int64_t j = 0; j < pairs; ++j) {
    const float a = first[j];
    const float b = second[j];
    const float sine = sign * sines[j];
    first[j] = a * cosines[j] - b * sine;
    second[j] = b * cosines[j] + a * sine;
  }
}

}  // namespace

void Compute(ThreadPool& pool, const Rope& op) {
  const int64_t pairs = op.head_dim / 2;
  const int64_t width = op.heads * op.head_dim;
  const float sign = op.inverse ? -1.0f : 1.0f;
  pool.RunRanges(op.rows, RowGrain(width), [&](int64_t begin, int64_t end) {
    float* const values = ThreadScratch(width).data();
    for (int64_t row = begin; row < end; ++row) {
      const int64_t angle = op.positions[row] * pairs;
      LoadRow(values, op.values, op.dtype, row * op.row_stride, width);
      for (int64_t head = 0; head < op.heads; ++head) {
        float* const first = values + head * op.head_dim;
        Turn(first, first + pairs, op.cosines + angle, op.sines + angle, sign, pairs);
      }
      StoreRow(op.values, op.dtype, row * op.row_stride, values, width);
    }
  });
}

}  // namespace strata
