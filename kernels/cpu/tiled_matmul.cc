#include <algorithm>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/rows.h"

namespace strata {
namespace {

constexpr int64_t kTileRows = 8 * kSgemmRows;
constexpr int64_t kTileColumns = 256;
constexpr int64_t kTileDepth = 256;
constexpr int64_t kTileFloats =
    (kTileRows + kTileColumns) * kTileDepth + kTileRows * kTileColumns;

/// rows x width elements of a matrix, as fp32 rows of exactly `width`.
void LoadBlock(float* target, const void* matrix, DType dtype, int64_t first_row,
               int64_t rows, int64_t first_column, int64_t width, int64_t stride) {
  for (int64_t row = first_row; row < first_row + rows; ++row, target += width) {
    LoadRow(target, matrix, dtype, row * stride + first_column, width);
  }
}

/// One tile of c, [rows, columns] from (row0, column0) on.
class Tile {
 public:
  Tile(const Matmul& op, int64_t row0, int64_t column0, float* scratch)
      : op_(op),
        row0_(row0),
        column0_(column0),
        rows_(std::min(kTileRows, op.m - row0)),
        columns_(std::min(kTileColumns, op.n - column0)),
        padded_rows_(AlignUp(rows_, kSgemmRows)),
        a_(scratch),
        b_(a_ + kTileRows * kTileDepth),
        c_(b_ + kTileColumns * kTileDepth) {}

  void Compute() {
    std::fill_n(c_, padded_rows_ * columns_, 0.0f);
    if (op_.accumulate) {
      LoadBlock(c_, op_.c, op_.c_dtype, row0_, rows_, column0_, columns_, op_.c_stride);
    }
    for (int64_t k = 0; k < op_.k; k += kTileDepth) {
      AddProduct(k, std::min(kTileDepth, op_.k - k));
    }
    for (int64_t row = 0; row < rows_; ++row) {
      StoreRow(op_.c, op_.c_dtype, (row0_ + row) * op_.c_stride + column0_,
               c_ + row * columns_, columns_);
    }
  }

 private:
  void AddProduct(int64_t k0, int64_t depth) {
    LoadA(k0, depth);
    if (op_.transpose_b) {
      LoadBlock(b_, op_.b, op_.dtype, column0_, columns_, k0, depth, op_.k);
    } else {
      LoadBlock(b_, op_.b, op_.dtype, k0, depth, column0_, columns_, op_.n);
    }
    Run(Sgemm{.c = c_,
              .a = a_,
              .b = b_,
              .m = padded_rows_,
              .n = columns_,
              .k = depth,
              .a_stride = op_.transpose_a ? padded_rows_ : depth,
              .b_stride = op_.transpose_b ? depth : columns_,
              .c_stride = columns_,
              .transpose_a = op_.transpose_a,
              .transpose_b = op_.transpose_b,
              .beta = 1});
  }

  /// Rows that pad a tile are zero: each row then meets the same instructions.
  void LoadA(int64_t k0, int64_t depth) {
    if (!op_.transpose_a) {
      LoadBlock(a_, op_.a, op_.dtype, row0_, rows_, k0, depth, op_.a_stride);
      std::fill_n(a_ + rows_ * depth, (padded_rows_ - rows_) * depth, 0.0f);
      return;
    }
    for (int64_t k = 0; k < depth; ++k) {
      float* const row = a_ + k * padded_rows_;
      LoadRow(row, op_.a, op_.dtype, (k0 + k) * op_.a_stride + row0_, rows_);
      std::fill_n(row + rows_, padded_rows_ - rows_, 0.0f);
    }
  }

  const Matmul& op_;
  const int64_t row0_, column0_, rows_, columns_, padded_rows_;
  float* const a_;  // [padded_rows, depth], or [depth, padded_rows] if transpose_a
  float* const b_;  // [depth, columns], or [columns, depth] if transpose_b
  float* const c_;  // [padded_rows, columns]
};

}  // namespace

int64_t TiledMatmulWorkspaceBytes(int threads) {
  return threads * kTileFloats * static_cast<int64_t>(sizeof(float));
}

void TiledMatmul(ThreadPool& pool, const Matmul& op) {
  const int64_t tile_columns = CeilDiv(op.n, kTileColumns);
  const int64_t tiles = CeilDiv(op.m, kTileRows) * tile_columns;
  float* const workspace = reinterpret_cast<float*>(op.workspace);
  // Every part has scratch of its own, so there are no more parts than threads.
  const int64_t parts = std::min<int64_t>(tiles, pool.threads());
  pool.Run(parts, [&](int64_t part) {
    const OneThread one_thread;
    for (int64_t tile = part; tile < tiles; tile += parts) {
      Tile(op, tile / tile_columns * kTileRows, tile % tile_columns * kTileColumns,
           workspace + part * kTileFloats)
          .Compute();
    }
  });
}

}  // namespace strata
