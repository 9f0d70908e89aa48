/// A StripeMap spreads one flat address space over the swap files of several
/// directories: cell by cell in turn, so that every transfer of more than a few cells
/// uses all drives. Directories that are full drop out; the others share what is left.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Immutable.
class StripeMap {
 public:
  struct Place {
    int directory = 0;
    int64_t file_offset = 0;
    int64_t size_bytes = 0;  // what is left of the cell from here
  };

  /// Shares `capacity_bytes` between directories that offer `limits_bytes` each.
  /// ResourceExhausted if these do not suffice. Cells have `cell_bytes`.
  static absl::StatusOr<StripeMap> Create(int64_t capacity_bytes, int64_t cell_bytes,
                                          std::span<const int64_t> limits_bytes);

  Place At(int64_t offset) const;
  int64_t file_bytes(int directory) const { return file_bytes_[directory]; }
  int64_t cell_bytes() const { return cell_bytes_; }
  int directory_count() const { return static_cast<int>(file_bytes_.size()); }

 private:
  /// A run of rows; each row has one cell in each of `directories`, at the same offset.
  struct Zone {
    int64_t begin = 0;  // address
    int64_t end = 0;
    int64_t file_begin = 0;
    std::vector<int> directories;
  };

  StripeMap() = default;

  int64_t cell_bytes_ = 0;
  std::vector<int64_t> file_bytes_;
  std::vector<Zone> zones_;
};

}  // namespace strata
