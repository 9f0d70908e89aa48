// With P = softmax(S), S = scale * Q K^T + mask and the gradient G of the output O = P
// V:
//
//   dV = P^T G        dP = G V^T        dS = P * (dP - delta), delta = rowsum(G * O)
//   dQ = scale * dS K                   dK = scale * dS^T Q
//
// P is made again from the kept log-sum-exp. Two passes, as on a GPU: one owns tiles of
// keys and sums over queries, the other owns tiles of queries and sums over keys, so
// that nothing is added to from two sides.
#include <algorithm>

#include "kernels/cpu/attention_tiles.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/exp.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

/// Where one thread computes: [rows, head_dim] each, but for the [kQueryRows, kKeyRows]
/// of probabilities and score_gradients.
struct Tiles {
  explicit Tiles(int64_t head_dim) {
    const int64_t query_floats = kQueryRows * head_dim;
    const int64_t key_floats = kKeyRows * head_dim;
    float* next =
        ThreadScratch(3 * query_floats + 4 * key_floats + 2 * kQueryRows * kKeyRows)
            .data();
    const auto take = [&next](int64_t floats) { return (next += floats) - floats; };
    query = take(query_floats);
    output_gradient = take(query_floats);
    query_gradient = take(query_floats);
    key = take(key_floats);
    value = take(key_floats);
    key_gradient = take(key_floats);
    value_gradient = take(key_floats);
    probabilities = take(kQueryRows * kKeyRows);
    score_gradients = take(kQueryRows * kKeyRows);
  }
  float *query, *output_gradient, *query_gradient;
  float *key, *value, *key_gradient, *value_gradient;
  float *probabilities, *score_gradients;
};

/// scores become probabilities, gradient (of the probabilities) that of the scores.
STRATA_VECTORIZE void SoftmaxBackwardRow(float* __restrict scores,
                                         float* __restrict gradient, float log_sum_exp,
                                         float delta, float scale, int64_t keys) {
  for (int64_t k = 0; k < keys; ++k) {
    scores[k] = Exp(scores[k] - log_sum_exp);
    gradient[k] = scores[k] * (gradient[k] - delta) * scale;
  }
}

class Backward {
 public:
  explicit Backward(const AttentionBackward& op)
      : op_(op),
        in_(AttentionInputs::Of(op)),
        width_(op.head_dim),
        group_(op.heads / op.kv_heads),
        rows_(op.sequences * op.length),
        delta_(reinterpret_cast<float*>(op.workspace)) {}

  /// delta of rows [begin, end), all heads.
  void Delta(int64_t begin, int64_t end) const;
  void KeyTile(int64_t sequence, int64_t kv_head, int64_t index) const;
  void QueryTile(int64_t sequence, int64_t head, int64_t index) const;

 private:
  void LoadQueries(Tiles& tiles, int64_t head, TileRange queries) const;
  void LoadKeys(Tiles& tiles, int64_t kv_head, TileRange keys) const;
  void Softmax(Tiles& tiles, int64_t head, TileRange queries, TileRange keys) const;

  const AttentionBackward& op_;
  const AttentionInputs in_;
  const int64_t width_, group_, rows_;
  float* const delta_;  // [heads, rows]
};

void Backward::Delta(int64_t begin, int64_t end) const {
  float* const gradient = ThreadScratch(2 * width_).data();
  float* const output = gradient + width_;
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t head = 0; head < op_.heads; ++head) {
      const int64_t first = (row * op_.heads + head) * width_;
      LoadRow(gradient, op_.output_gradient, op_.dtype, first, width_);
      LoadRow(output, op_.output, op_.dtype, first, width_);
      delta_[head * rows_ + row] = Dot(gradient, output, width_);
    }
  }
}

void Backward::LoadQueries(Tiles& tiles, int64_t head, TileRange queries) const {
  LoadTile(tiles.query, in_.query, in_.dtype, queries, head * width_, in_.row_stride,
           width_);
  LoadTile(tiles.output_gradient, op_.output_gradient, in_.dtype, queries,
           head * width_, op_.heads * width_, width_);
}

void Backward::LoadKeys(Tiles& tiles, int64_t kv_head, TileRange keys) const {
  const int64_t column = kv_head * width_;
  LoadTile(tiles.key, in_.key, in_.dtype, keys, column, in_.row_stride, width_);
  LoadTile(tiles.value, in_.value, in_.dtype, keys, column, in_.row_stride, width_);
}

void Backward::Softmax(Tiles& tiles, int64_t head, TileRange queries,
                       TileRange keys) const {
  MaskedScores(in_, queries, keys, tiles.query, tiles.key, tiles.probabilities);
  Run(Sgemm{.c = tiles.score_gradients,
            .a = tiles.output_gradient,
            .b = tiles.value,
            .m = queries.count(),
            .n = keys.count(),
            .k = width_,
            .a_stride = width_,
            .b_stride = width_,
            .c_stride = kKeyRows,
            .transpose_b = true});
  for (int64_t q = 0; q < queries.count(); ++q) {
    const int64_t row = head * rows_ + queries.begin + q;
    SoftmaxBackwardRow(tiles.probabilities + q * kKeyRows,
                       tiles.score_gradients + q * kKeyRows, op_.log_sum_exp[row],
                       delta_[row], op_.scale, keys.count());
  }
}

void Backward::KeyTile(int64_t sequence, int64_t kv_head, int64_t index) const {
  Tiles tiles(width_);
  const TileRange keys = TileOf(in_, sequence, index, kKeyRows);
  LoadKeys(tiles, kv_head, keys);
  std::fill_n(tiles.key_gradient, kKeyRows * width_, 0.0f);
  std::fill_n(tiles.value_gradient, kKeyRows * width_, 0.0f);
  for (int64_t head = kv_head * group_; head < (kv_head + 1) * group_; ++head) {
    for (int64_t tile = index * kKeyRows / kQueryRows;
         tile < CeilDiv(op_.length, kQueryRows); ++tile) {
      const TileRange queries = TileOf(in_, sequence, tile, kQueryRows);
      LoadQueries(tiles, head, queries);
      Softmax(tiles, head, queries, keys);
      Sgemm sum{.c = tiles.value_gradient,
                .a = tiles.probabilities,
                .b = tiles.output_gradient,
                .m = keys.count(),
                .n = width_,
                .k = queries.count(),
                .a_stride = kKeyRows,
                .b_stride = width_,
                .c_stride = width_,
                .transpose_a = true,
                .beta = 1};
      Run(sum);
      sum.c = tiles.key_gradient;
      sum.a = tiles.score_gradients;
      sum.b = tiles.query;
      Run(sum);
    }
  }
  const int64_t column = kv_head * width_;
  StoreTile(op_.key_gradient, in_.dtype, keys, column, in_.row_stride, width_,
            tiles.key_gradient);
  StoreTile(op_.value_gradient, in_.dtype, keys, column, in_.row_stride, width_,
            tiles.value_gradient);
}

void Backward::QueryTile(int64_t sequence, int64_t head, int64_t index) const {
  Tiles tiles(width_);
  const TileRange queries = TileOf(in_, sequence, index, kQueryRows);
  LoadQueries(tiles, head, queries);
  std::fill_n(tiles.query_gradient, kQueryRows * width_, 0.0f);
  for (int64_t tile = 0;; ++tile) {
    const TileRange keys = TileOf(in_, sequence, tile, kKeyRows);
    if (keys.begin >= queries.end || keys.count() <= 0) break;
    LoadKeys(tiles, head / group_, keys);
    Softmax(tiles, head, queries, keys);
    Run(Sgemm{.c = tiles.query_gradient,
              .a = tiles.score_gradients,
              .b = tiles.key,
              .m = queries.count(),
              .n = width_,
              .k = keys.count(),
              .a_stride = kKeyRows,
              .b_stride = width_,
              .c_stride = width_,
              .beta = 1});
  }
  StoreTile(op_.query_gradient, in_.dtype, queries, head * width_, in_.row_stride,
            width_, tiles.query_gradient);
}

}  // namespace

void Compute(ThreadPool& pool, const AttentionBackward& op) {
  const Backward backward(op);
  pool.RunRanges(op.sequences * op.length, RowGrain(op.heads * op.head_dim),
                 [&](int64_t begin, int64_t end) { backward.Delta(begin, end); });
  const int64_t key_tiles = CeilDiv(op.length, kKeyRows);
  pool.Run(op.sequences * op.kv_heads * key_tiles, [&](int64_t part) {
    const OneThread one_thread;
    backward.KeyTile(part / key_tiles / op.kv_heads, part / key_tiles % op.kv_heads,
                     part % key_tiles);
  });
  const int64_t query_tiles = CeilDiv(op.length, kQueryRows);
  pool.Run(op.sequences * op.heads * query_tiles, [&](int64_t part) {
    const OneThread one_thread;
    backward.QueryTile(part / query_tiles / op.heads, part / query_tiles % op.heads,
                       query_tiles - 1 - part % query_tiles);
  });
}

}  // namespace strata
