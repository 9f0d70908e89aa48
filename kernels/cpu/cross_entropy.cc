// loss = log(sum of e^l) - l[target], and d loss / d l = softmax(l) - onehot(target).
// Every exponent is taken relative to the largest logit, so nothing overflows.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

STRATA_VECTORIZE void ExpRow(float* __restrict target, const float* __restrict logits,
                             float largest, int64_t vocab) {
  for (int64_t i = 0; i < vocab; ++i) target[i] = Exp(logits[i] - largest);
}

STRATA_VECTORIZE void ScaleRow(float* __restrict row, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) row[i] *= factor;
}

void ComputeRow(const CrossEntropy& op, int64_t row, float* scratch) {
  const float* const logits = op.logits + row * op.vocab;
  const int32_t target = op.targets[row];
  if (target == kIgnoredLabel) {
    op.losses[row] = 0;
    if (op.gradient == nullptr) return;
    std::fill_n(scratch, op.vocab, 0.0f);
    StoreRow(op.gradient, op.dtype, row * op.vocab, scratch, op.vocab);
    return;
  }
  STRATA_CHECK(target >= 0 && target < op.vocab);
  const float largest = Largest(logits, op.vocab);
  ExpRow(scratch, logits, largest, op.vocab);
  const float sum = Sum(scratch, op.vocab);
  op.losses[row] = std::log(sum) + (largest - logits[target]);
  if (op.gradient == nullptr) return;
  ScaleRow(scratch, op.scale / sum, op.vocab);
  scratch[target] -= op.scale;
  StoreRow(op.gradient, op.dtype, row * op.vocab, scratch, op.vocab);
}

}  // namespace

void Compute(ThreadPool& pool, const CrossEntropy& op) {
  pool.RunRanges(op.rows, RowGrain(op.vocab), [&](int64_t begin, int64_t end) {
    float* const scratch = ThreadScratch(op.vocab).data();
    for (int64_t row = begin; row < end; ++row) ComputeRow(op, row, scratch);
  });
}

}  // namespace strata
