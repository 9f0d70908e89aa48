/// What the attention passes share: tiles of kQueryRows queries by kKeyRows keys of one
/// head, in fp32, so that scratch does not grow with the length of a sequence.
#pragma once

#include <cstdint>

#include "runtime/base/types.h"

namespace strata {

inline constexpr int64_t kQueryRows = 96;
inline constexpr int64_t kKeyRows = 128;

/// The arguments that the forward and the backward operation have in common.
struct AttentionInputs {
  const void* query;
  const void* key;
  const void* value;
  const int32_t* documents;
  int64_t sequences, length, heads, kv_heads, head_dim, row_stride;
  float scale;
  DType dtype;

  template <typename Op>  // AttentionForward or AttentionBackward
  static AttentionInputs Of(const Op& op) {
    return {op.query, op.key,      op.value,    op.documents,  op.sequences, op.length,
            op.heads, op.kv_heads, op.head_dim, op.row_stride, op.scale,     op.dtype};
  }
};

/// Rows [begin, end) of a batch, all of one sequence.
struct TileRange {
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

/// Tile `index` of `tile_rows` rows in `sequence`.
TileRange TileOf(const AttentionInputs& in, int64_t sequence, int64_t index,
                 int64_t tile_rows);

/// tile[r][d] = source[rows.begin + r][column + d]; tile is [rows.count(), width].
void LoadTile(float* tile, const void* source, DType dtype, TileRange rows,
              int64_t column, int64_t row_stride, int64_t width);
void StoreTile(void* target, DType dtype, TileRange rows, int64_t column,
               int64_t row_stride, int64_t width, const float* tile);

/// scores[q][k] = scale * query q . key k, or -infinity where q may not see k.
/// scores is [queries.count(), kKeyRows].
void MaskedScores(const AttentionInputs& in, TileRange queries, TileRange keys,
                  const float* query_tile, const float* key_tile, float* scores);

}  // namespace strata
