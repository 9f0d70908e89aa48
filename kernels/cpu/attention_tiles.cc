#include "kernels/cpu/attention_tiles.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"

namespace strata {
namespace {

/// Of the keys, the first `visible` are not later than the query.
STRATA_VECTORIZE void MaskRow(float* __restrict scores,
                              const int32_t* __restrict key_documents, int32_t document,
                              float scale, int64_t visible, int64_t count) {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (int64_t k = 0; k < count; ++k) {
    const bool sees = (k < visible) & (key_documents[k] == document);
    scores[k] = sees ? scores[k] * scale : kHidden;
  }
}

}  // namespace

TileRange TileOf(const AttentionInputs& in, int64_t sequence, int64_t index,
                 int64_t tile_rows) {
  const int64_t begin = index * tile_rows;
  const int64_t end = std::min(in.length, begin + tile_rows);
  return {sequence * in.length + begin, sequence * in.length + end};
}

void LoadTile(float* tile, const void* source, DType dtype, TileRange rows,
              int64_t column, int64_t row_stride, int64_t width) {
  for (int64_t row = rows.begin; row < rows.end; ++row, tile += width) {
    LoadRow(tile, source, dtype, row * row_stride + column, width);
  }
}

void StoreTile(void* target, DType dtype, TileRange rows, int64_t column,
               int64_t row_stride, int64_t width, const float* tile) {
  for (int64_t row = rows.begin; row < rows.end; ++row, tile += width) {
    StoreRow(target, dtype, row * row_stride + column, tile, width);
  }
}

void MaskedScores(const AttentionInputs& in, TileRange queries, TileRange keys,
                  const float* query_tile, const float* key_tile, float* scores) {
  Run(Sgemm{.c = scores,
            .a = query_tile,
            .b = key_tile,
            .m = queries.count(),
            .n = keys.count(),
            .k = in.head_dim,
            .a_stride = in.head_dim,
            .b_stride = in.head_dim,
            .c_stride = kKeyRows,
            .transpose_b = true});
  for (int64_t query = queries.begin; query < queries.end;
       ++query, scores += kKeyRows) {
    MaskRow(scores, in.documents + keys.begin, in.documents[query], in.scale,
            query + 1 - keys.begin, keys.count());
  }
}

}  // namespace strata
