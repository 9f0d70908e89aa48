#include "tiers/stripe_map.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {

absl::StatusOr<StripeMap> StripeMap::Create(int64_t capacity_bytes, int64_t cell_bytes,
                                            std::span<const int64_t> limits_bytes) {
  STRATA_CHECK(capacity_bytes > 0 && cell_bytes > 0 && !limits_bytes.empty());
  StripeMap map;
  map.cell_bytes_ = cell_bytes;
  map.file_bytes_.assign(limits_bytes.size(), 0);
  int64_t cells_left = CeilDiv(capacity_bytes, cell_bytes);
  int64_t row = 0;  // rows up to here have been given out
  while (cells_left > 0) {
    Zone zone;
    int64_t row_end = INT64_MAX;  // where the smallest of the others is full
    for (size_t d = 0; d < limits_bytes.size(); ++d) {
      const int64_t rows = limits_bytes[d] / cell_bytes;
      if (rows <= row) continue;
      zone.directories.push_back(static_cast<int>(d));
      row_end = std::min(row_end, rows);
    }
    if (zone.directories.empty()) {
      const int64_t sum =
          std::accumulate(limits_bytes.begin(), limits_bytes.end(), int64_t{0});
      return absl::ResourceExhaustedError(
          absl::StrCat("needs ", capacity_bytes, " bytes (", FormatSize(capacity_bytes),
                       "), but ", sum, " bytes (", FormatSize(sum), ") are available"));
    }
    const int64_t width = static_cast<int64_t>(zone.directories.size());
    const int64_t rows = std::min(row_end - row, CeilDiv(cells_left, width));
    const int64_t cells = std::min(rows * width, cells_left);
    zone.begin = map.zones_.empty() ? 0 : map.zones_.back().end;
    zone.end = zone.begin + cells * cell_bytes;
    zone.file_begin = row * cell_bytes;
    for (int64_t i = 0; i < width; ++i) {
      const int64_t rows_here = cells / width + (i < cells % width ? 1 : 0);
      map.file_bytes_[zone.directories[i]] += rows_here * cell_bytes;
    }
    map.zones_.push_back(std::move(zone));
    row += rows;
    cells_left -= cells;
  }
  return map;
}

StripeMap::Place StripeMap::At(int64_t offset) const {
  const auto zone =
      std::find_if(zones_.begin(), zones_.end(),
                   [offset](const Zone& candidate) { return offset < candidate.end; });
  STRATA_CHECK(offset >= 0 && zone != zones_.end());
  const int64_t cell = (offset - zone->begin) / cell_bytes_;
  const int64_t in_cell = (offset - zone->begin) % cell_bytes_;
  const int64_t width = static_cast<int64_t>(zone->directories.size());
  return {.directory = zone->directories[cell % width],
          .file_offset = zone->file_begin + cell / width * cell_bytes_ + in_cell,
          .size_bytes = cell_bytes_ - in_cell};
}

}  // namespace strata
