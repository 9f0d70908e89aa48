/// Puts samples into rows of a fixed length, whole, so that little padding is left.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Best fit among the rows that are open, of which there are at most 64: deterministic,
/// linear in the number of samples, and near the order of the samples. Returns the row
/// of each sample; rows are numbered in the order in which they were opened. REQUIRES:
/// every size is between 1 and row_length.
std::vector<int64_t> PackRows(std::span<const int64_t> sizes, int64_t row_length);

}  // namespace strata
