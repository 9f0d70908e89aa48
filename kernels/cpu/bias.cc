// A bias is added to every row; its gradient is the sum of the rows' gradients.
#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

STRATA_VECTORIZE void AddTo(float* __restrict target, const float* __restrict values,
                            int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] += values[i];
}

}  // namespace

void Compute(ThreadPool& pool, const AddBias& op) {
  pool.RunRanges(op.rows, RowGrain(op.width), [&](int64_t begin, int64_t end) {
    float* const row = ThreadScratch(2 * op.width).data();
    float* const bias = row + op.width;
    LoadRow(bias, op.bias, op.dtype, 0, op.width);
    for (int64_t r = begin; r < end; ++r) {
      LoadRow(row, op.values, op.dtype, r * op.row_stride, op.width);
      AddTo(row, bias, op.width);
      StoreRow(op.values, op.dtype, r * op.row_stride, row, op.width);
    }
  });
}

void Compute(ThreadPool& pool, const BiasGradient& op) {
  const int64_t block_rows = CeilDiv(op.rows, RowPartials(op.rows));
  float* const partials = reinterpret_cast<float*>(op.workspace);
  pool.RunRanges(op.rows, block_rows, [&](int64_t begin, int64_t end) {
    float* const row = ThreadScratch(op.width).data();
    float* const partial = partials + begin / block_rows * op.width;
    std::fill_n(partial, op.width, 0.0f);
    for (int64_t r = begin; r < end; ++r) {
      LoadRow(row, op.output_gradient, op.dtype, r * op.row_stride, op.width);
      AddTo(partial, row, op.width);
    }
  });
  for (int64_t block = 0; block < CeilDiv(op.rows, block_rows); ++block) {
    AddTo(op.accumulator, partials + block * op.width, op.width);
  }
}

}  // namespace strata
