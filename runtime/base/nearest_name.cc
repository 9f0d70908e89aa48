#include "runtime/base/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace strata {
namespace {

size_t EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> NearestName(absl::string_view name,
                                       std::span<const std::string> names) {
  const std::string* nearest = nullptr;
  size_t fewest = std::max<size_t>(name.size() / 3, 2) + 1;
  for (const std::string& candidate : names) {
    const size_t edits = EditDistance(name, candidate);
    if (edits < fewest) fewest = edits, nearest = &candidate;
  }
  constexpr size_t kPartLeast = 5;
  for (const std::string& candidate : names) {
    if (nearest != nullptr || name.size() < kPartLeast) break;
    if (candidate.find(name.data(), 0, name.size()) != std::string::npos) {
      nearest = &candidate;
    }
  }
  if (nearest == nullptr) return std::nullopt;
  return *nearest;
}

}  // namespace strata
