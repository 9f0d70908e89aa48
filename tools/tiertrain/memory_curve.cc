#include "tools/tiertrain/memory_curve.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// Bytes between two neighbouring borders of accesses: in use as one.
struct Cell {
  int64_t size_bytes = 0;
  bool open = false;
  double begin = 0, end = 0;  // of the use that is open
};

struct Change {
  double seconds;
  int64_t bytes;
};

class Usage {
 public:
  Usage(const Plan& plan, TierKind tier, int64_t homes_bytes)
      : plan_(plan), tier_(tier), homes_bytes_(homes_bytes) {
    for (const Access& access : plan.accesses) {
      if (!Counts(access)) continue;
      borders_.push_back(access.offset);
      borders_.push_back(access.offset + access.size_bytes);
    }
    std::sort(borders_.begin(), borders_.end());
    borders_.erase(std::unique(borders_.begin(), borders_.end()), borders_.end());
    for (size_t i = 0; i + 1 < borders_.size(); ++i) {
      cells_.push_back({.size_bytes = borders_[i + 1] - borders_[i]});
    }
  }

  /// In time order: what comes into use and what goes.
  std::vector<Change> Changes(std::span<const OpSpan> spans) {
    for (size_t op = 0; op < plan_.ops.size(); ++op) {
      const auto accesses = plan_.Accesses(plan_.ops[op]);
      // What is changed in place is read first: it stays in use.
      for (const AccessMode mode : {AccessMode::kRead, AccessMode::kWrite}) {
        for (const Access& access : accesses) {
          if (access.mode == mode && Counts(access)) Use(access, spans[op], accesses);
        }
      }
    }
    for (Cell& cell : cells_) Close(cell);
    std::sort(changes_.begin(), changes_.end(), [](const Change& a, const Change& b) {
      // What goes makes room for what comes at the same time.
      return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
    });
    return std::move(changes_);
  }

 private:
  bool Counts(const Access& access) const {
    return access.tier == tier_ && access.offset >= homes_bytes_ &&
           access.size_bytes > 0;
  }

  static bool ReadByToo(std::span<const Access> accesses, const Access& write) {
    return std::any_of(accesses.begin(), accesses.end(), [&write](const Access& read) {
      return read.mode == AccessMode::kRead && read.tier == write.tier &&
             read.offset <= write.offset &&
             read.offset + read.size_bytes >= write.offset + write.size_bytes;
    });
  }

  void Use(const Access& access, const OpSpan& span, std::span<const Access> accesses) {
    const bool renews =
        access.mode == AccessMode::kWrite && !ReadByToo(accesses, access);
    const auto first =
        std::lower_bound(borders_.begin(), borders_.end(), access.offset);
    for (size_t i = static_cast<size_t>(first - borders_.begin());
         borders_[i] < access.offset + access.size_bytes; ++i) {
      Cell& cell = cells_[i];
      if (renews) Close(cell);
      if (!cell.open) {
        cell.open = true;
        // What is read and was not written came from the step before.
        cell.begin = renews ? span.begin_seconds : 0;
        cell.end = span.end_seconds;
      }
      cell.end = std::max(cell.end, span.end_seconds);
    }
  }

  void Close(Cell& cell) {
    if (cell.open) {
      changes_.push_back({cell.begin, cell.size_bytes});
      changes_.push_back({cell.end, -cell.size_bytes});
    }
    cell.open = false;
  }

  const Plan& plan_;
  const TierKind tier_;
  const int64_t homes_bytes_;
  std::vector<int64_t> borders_;
  std::vector<Cell> cells_;  // cells_[i] lies between borders_[i] and borders_[i + 1]
  std::vector<Change> changes_;
};

}  // namespace

std::vector<int64_t> BytesInUse(const Plan& plan, TierKind tier, int64_t homes_bytes,
                                std::span<const OpSpan> spans, double seconds,
                                int parts) {
  STRATA_CHECK(spans.size() == plan.ops.size() && parts > 0);
  std::vector<int64_t> most(static_cast<size_t>(parts), homes_bytes);
  const auto part_of = [&](double time) {
    const double share = seconds > 0 ? time / seconds : 0;
    return static_cast<size_t>(
        std::clamp<double>(share * parts, 0, static_cast<double>(parts) - 1));
  };
  int64_t bytes = homes_bytes;
  size_t part = 0;
  for (const Change& change : Usage(plan, tier, homes_bytes).Changes(spans)) {
    const size_t reached = part_of(change.seconds);
    while (part < reached) most[++part] = bytes;
    bytes += change.bytes;
    most[part] = std::max(most[part], bytes);
  }
  while (part + 1 < most.size()) most[++part] = bytes;
  return most;
}

}  // namespace strata
