/// A micro-batch as the layers read it: a fixed number of rows of a fixed length.
#pragma once

#include <cstdint>
#include <vector>

#include "model/sample.h"

namespace strata {

/// Values are allocated once and refilled. Padding has token 0, no target, position 0
/// and document -1, so that no document sees it.
class Batch {
 public:
  Batch(int64_t rows, int64_t length);

  int64_t rows() const { return rows_; }
  int64_t length() const { return length_; }
  int64_t size() const { return rows_ * length_; }

  /// Makes all of it padding.
  void Clear();

  /// Adds a sample behind what `row` holds already, as documents of their own.
  /// Positions start at 0 in each document. REQUIRES: the row has room.
  void Append(int64_t row, const Sample& sample);

  std::vector<int32_t> tokens;     // [rows, length]
  std::vector<int32_t> targets;    // [rows, length]; shifted already; kIgnoredLabel
  std::vector<int32_t> documents;  // [rows, length]; equal within a row = same document
  std::vector<int32_t> positions;  // [rows, length]

  int64_t used_tokens = 0;     // without padding
  int64_t trained_tokens = 0;  // positions with a target

 private:
  int64_t rows_;
  int64_t length_;
  std::vector<int64_t> used_of_row_;       // tokens
  std::vector<int32_t> documents_of_row_;  // documents so far
};

}  // namespace strata
