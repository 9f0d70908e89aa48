// Add, SumInOrder, Fill and ReduceGradient: what is added up, and in which order.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

constexpr int64_t kBlock = 1024;  // elements that wait in the first-level cache

STRATA_VECTORIZE void AddTo(float* __restrict target, const float* __restrict values,
                            int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] += values[i];
}

/// Rounds one tile of a gradient and returns the sum of squares of what was stored.
float ReduceTile(const ReduceGradient& op, int64_t first, int64_t count) {
  float* const values = ThreadScratch(count).data();
  std::copy_n(op.a + first, count, values);
  if (op.b != nullptr) AddTo(values, op.b + first, count);
  StoreRow(op.gradient, op.dtype, first, values, count);
  LoadRow(values, op.gradient, op.dtype, first, count);
  return Dot(values, values, count);
}

}  // namespace

void Compute(ThreadPool& pool, const Add& op) {
  pool.RunRanges(op.count, 16 * kBlock, [&](int64_t begin, int64_t end) {
    float a[kBlock];
    float b[kBlock];
    for (int64_t first = begin; first < end; first += kBlock) {
      const int64_t count = std::min(kBlock, end - first);
      LoadRow(a, op.a, op.dtype, first, count);
      LoadRow(b, op.b, op.dtype, first, count);
      AddTo(a, b, count);
      StoreRow(op.output, op.dtype, first, a, count);
    }
  });
}

void Compute(ThreadPool& /*pool*/, const SumInOrder& op) {
  double sum = 0;
  for (int64_t i = 0; i < op.count; ++i) sum += op.values[i];
  *op.sum = sum;
}

void Compute(ThreadPool& pool, const Fill& op) {
  auto* const target = static_cast<std::byte*>(op.target);
  pool.RunRanges(op.size_bytes, kMiB, [&](int64_t begin, int64_t end) {
    std::memset(target + begin, 0, static_cast<size_t>(end - begin));
  });
}

void Compute(ThreadPool& pool, const ReduceGradient& op) {
  pool.RunRanges(op.count, kTileElements, [&](int64_t begin, int64_t end) {
    op.tile_sums[begin / kTileElements] = ReduceTile(op, begin, end - begin);
  });
}

}  // namespace strata
