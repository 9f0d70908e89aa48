/// Few rows that try every pair: of all combinations of the levels of some factors, a
/// set in which each two levels of two factors stand together in some row.
#pragma once

#include <functional>
#include <vector>

namespace strata {

using LevelRow = std::vector<int>;  // a level of each factor

/// All rows of factors with so many `levels` that are `allowed`.
std::vector<LevelRow> AllRows(const std::vector<int>& levels,
                              const std::function<bool(const LevelRow&)>& allowed);

/// Rows out of `rows` that have every pair of levels that any of them has. Taken
/// greedily, always that with the most new pairs.
std::vector<LevelRow> PairwiseRows(const std::vector<LevelRow>& rows);

}  // namespace strata
