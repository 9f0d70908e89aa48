// output = softmax(scale * Q K^T + mask) V for each head. A query goes over its keys
// tile by tile and keeps the largest score so far, m, and the sum of e^(score - m);
// when m grows, what was summed before is scaled down to it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

STRATA_VECTORIZE void ExpRow(float* __restrict scores, float largest, int64_t count) {
  for (int64_t k = 0; k < count; ++k) scores[k] = Exp(scores[k] - largest);
}

STRATA_VECTORIZE void ScaleRow(float* __restrict row, float factor, int64_t count) {
  for (int64_t i = 0; i < count; ++i) row[i] *= factor;
}

/// Of the queries of one tile, what the keys so far have given.
struct RunningSoftmax {
  float largest[kQueryRows];
  float sum[kQueryRows];
};

/// Turns the scores of a tile into probabilities relative to the new largest score, and
/// brings sums and outputs to it.
void AddScores(RunningSoftmax& softmax, float* scores, float* output, int64_t queries,
               int64_t keys, int64_t head_dim) {
  for (int64_t q = 0; q < queries; ++q) {
    float* const row = scores + q * kKeyRows;
    const float largest = std::max(softmax.largest[q], Largest(row, keys));
    if (largest == kNothing) {  // no key of this tile is in the query's document
      std::fill_n(row, keys, 0.0f);
      continue;
    }
    const float shrink = Exp(softmax.largest[q] - largest);
    ExpRow(row, largest, keys);
    softmax.sum[q] = softmax.sum[q] * shrink + Sum(row, keys);
    softmax.largest[q] = largest;
    ScaleRow(output + q * head_dim, shrink, head_dim);
  }
}

void ForwardTile(const AttentionForward& op, const AttentionInputs& in,
                 int64_t sequence, int64_t head, int64_t index) {
  const int64_t width = op.head_dim;
  const int64_t kv_column = head / (op.heads / op.kv_heads) * width;
  const TileRange queries = TileOf(in, sequence, index, kQueryRows);
  float* const query = ThreadScratch(2 * kQueryRows * width + 2 * kKeyRows * width +
                                     kQueryRows * kKeyRows)
                           .data();
  float* const output = query + kQueryRows * width;
  float* const key = output + kQueryRows * width;
  float* const value = key + kKeyRows * width;
  float* const scores = value + kKeyRows * width;

  RunningSoftmax softmax;
  std::fill_n(softmax.largest, kQueryRows, kNothing);
  std::fill_n(softmax.sum, kQueryRows, 0.0f);
  std::fill_n(output, kQueryRows * width, 0.0f);
  LoadTile(query, in.query, in.dtype, queries, head * width, in.row_stride, width);
  for (int64_t tile = 0;; ++tile) {
    const TileRange keys = TileOf(in, sequence, tile, kKeyRows);
    if (keys.begin >= queries.end || keys.count() <= 0) break;
    LoadTile(key, in.key, in.dtype, keys, kv_column, in.row_stride, width);
    LoadTile(value, in.value, in.dtype, keys, kv_column, in.row_stride, width);
    MaskedScores(in, queries, keys, query, key, scores);
    AddScores(softmax, scores, output, queries.count(), keys.count(), width);
    Run(Sgemm{.c = output,
              .a = scores,
              .b = value,
              .m = queries.count(),
              .n = width,
              .k = keys.count(),
              .a_stride = kKeyRows,
              .b_stride = width,
              .c_stride = width,
              .beta = 1});
  }
  float* const log_sum_exp =
      op.log_sum_exp + head * op.sequences * op.length + queries.begin;
  for (int64_t q = 0; q < queries.count(); ++q) {
    ScaleRow(output + q * width, 1.0f / softmax.sum[q], width);
    log_sum_exp[q] = softmax.largest[q] + std::log(softmax.sum[q]);
  }
  StoreTile(op.output, in.dtype, queries, head * width, op.heads * width, width,
            output);
}

}  // namespace

void Compute(ThreadPool& pool, const AttentionForward& op) {
  const AttentionInputs in = AttentionInputs::Of(op);
  const int64_t tiles = CeilDiv(op.length, kQueryRows);
  pool.Run(op.sequences * op.heads * tiles, [&](int64_t part) {
    const OneThread one_thread;
    const int64_t head = part / tiles % op.heads;
    // Late tiles see the most keys: they go first, so that threads finish together.
    ForwardTile(op, in, part / tiles / op.heads, head, tiles - 1 - part % tiles);
  });
}

}  // namespace strata
