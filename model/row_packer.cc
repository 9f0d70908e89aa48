#include "model/row_packer.h"

#include <algorithm>
#include <cstddef>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr size_t kOpenRowsMax = 64;

struct OpenRow {
  int64_t row;
  int64_t room;  // tokens
};

// The row with the least room that takes `size` tokens, or the end.
std::vector<OpenRow>::iterator BestFit(std::vector<OpenRow>& open, int64_t size) {
  auto best = open.end();
  for (auto row = open.begin(); row != open.end(); ++row) {
    if (row->room >= size && (best == open.end() || row->room < best->room)) best = row;
  }
  return best;
}

}  // namespace

std::vector<int64_t> PackRows(std::span<const int64_t> sizes, int64_t row_length) {
  std::vector<int64_t> row_of_sample;
  std::vector<OpenRow> open;
  int64_t row_count = 0;
  for (int64_t size : sizes) {
    STRATA_CHECK(size >= 1 && size <= row_length);
    auto row = BestFit(open, size);
    if (row == open.end()) {
      if (open.size() == kOpenRowsMax) {
        open.erase(std::min_element(
            open.begin(), open.end(),
            [](const OpenRow& a, const OpenRow& b) { return a.room < b.room; }));
      }
      row = open.insert(open.end(), {row_count++, row_length});
    }
    row_of_sample.push_back(row->row);
    row->room -= size;
    if (row->room == 0) open.erase(row);
  }
  return row_of_sample;
}

}  // namespace strata
