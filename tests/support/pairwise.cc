#include "tests/support/pairwise.h"

#include <algorithm>
#include <cstddef>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr size_t kLevelsMax = 8;

// A number for each two levels of two factors.
std::vector<size_t> PairsOf(const LevelRow& row) {
  std::vector<size_t> pairs;
  for (size_t a = 0; a < row.size(); ++a) {
    for (size_t b = a + 1; b < row.size(); ++b) {
      const size_t factors = a * row.size() + b;
      pairs.push_back((factors * kLevelsMax + static_cast<size_t>(row[a])) *
                          kLevelsMax +
                      static_cast<size_t>(row[b]));
    }
  }
  return pairs;
}

}  // namespace

std::vector<LevelRow> AllRows(const std::vector<int>& levels,
                              const std::function<bool(const LevelRow&)>& allowed) {
  for (const int count : levels) STRATA_CHECK(count <= static_cast<int>(kLevelsMax));
  std::vector<LevelRow> rows;
  LevelRow row(levels.size(), 0);
  while (true) {
    if (allowed(row)) rows.push_back(row);
    size_t factor = 0;
    while (factor < row.size() && ++row[factor] == levels[factor]) row[factor++] = 0;
    if (factor == row.size()) return rows;
  }
}

std::vector<LevelRow> PairwiseRows(const std::vector<LevelRow>& rows) {
  if (rows.empty()) return {};
  const size_t factors = rows.front().size();
  std::vector<bool> missing(factors * factors * kLevelsMax * kLevelsMax);
  std::vector<std::vector<size_t>> pairs;
  for (const LevelRow& row : rows) {
    pairs.push_back(PairsOf(row));
    for (const size_t pair : pairs.back()) missing[pair] = true;
  }
  std::vector<LevelRow> chosen;
  while (true) {
    size_t best = 0;
    std::ptrdiff_t most = 0;
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto count = std::count_if(pairs[r].begin(), pairs[r].end(),
                                       [&](size_t pair) { return missing[pair]; });
      if (count > most) best = r, most = count;
    }
    if (most == 0) return chosen;
    for (const size_t pair : pairs[best]) missing[pair] = false;
    chosen.push_back(rows[best]);
  }
}

}  // namespace strata
