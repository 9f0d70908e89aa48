#include <algorithm>
#include <cstring>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "runtime/base/status.h"

namespace strata {

void Compute(ThreadPool& pool, const EmbeddingForward& op) {
  const int64_t row_bytes = op.width * SizeOf(op.dtype);
  const auto* const weight = static_cast<const std::byte*>(op.weight);
  auto* const output = static_cast<std::byte*>(op.output);
  pool.RunRanges(op.rows, RowGrain(op.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t token = op.tokens[row];
      STRATA_CHECK(token >= 0 && token < op.vocab);
      std::memcpy(output + row * row_bytes, weight + token * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  });
}

void Compute(ThreadPool& pool, const EmbeddingBackward& op) {
  // A token may occur in many rows: threads share the columns, so that each accumulator
  // is added to in row order.
  const int64_t grain = std::max<int64_t>(16, CeilDiv(op.width, pool.threads()));
  pool.RunRanges(op.width, grain, [&](int64_t begin, int64_t end) {
    const int64_t count = end - begin;
    const std::span<float> gradient = ThreadScratch(count);
    for (int64_t row = 0; row < op.rows; ++row) {
      const int32_t token = op.tokens[row];
      STRATA_CHECK(token >= 0 && token < op.vocab);
      LoadRow(gradient.data(), op.output_gradient, op.dtype, row * op.width + begin,
              count);
      float* const target = op.accumulator + token * op.width + begin;
      for (int64_t i = 0; i < count; ++i) target[i] += gradient[i];
    }
  });
}

}  // namespace strata
