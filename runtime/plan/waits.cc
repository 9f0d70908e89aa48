#include "runtime/plan/waits.h"

#include <algorithm>
#include <array>
#include <utility>

namespace strata {
namespace {

constexpr uint32_t kNone = ~0u;

// Who touched each byte range last, in one tier: the writer, and the readers since. The
// ranges are a sorted array and no tree: few are added after the first operations, and
// every access looks some up.
class RangeHistory {
 public:
  // Appends to `conflicts` every operation that an access of this kind must come after.
  void Collect(const Access& access, std::vector<uint32_t>& conflicts) const {
    const int64_t end = access.offset + access.size_bytes;
    for (size_t i = FirstEndingAfter(access.offset);
         i < ranges_.size() && ranges_[i].begin < end; ++i) {
      const Touch& touch = ranges_[i].touch;
      if (touch.writer != kNone) conflicts.push_back(touch.writer);
      if (access.mode == AccessMode::kWrite) {
        conflicts.insert(conflicts.end(), touch.readers.begin(), touch.readers.end());
      }
    }
  }

  // Records that `op` has made the access. `replaces(r)`: reader r need not be kept.
  template <typename Replaces>
  void Record(const Access& access, uint32_t op, const Replaces& replaces) {
    const int64_t end = access.offset + access.size_bytes;
    const size_t first = SplitAt(access.offset);
    if (access.mode == AccessMode::kWrite) {
      Replace(first, SplitAt(end), {access.offset, end, {op, {}}});
      return;
    }
    SplitAt(end);
    int64_t position = access.offset;
    for (size_t i = first; position < end; ++i) {
      if (i == ranges_.size() || ranges_[i].begin > position) {  // nobody was here yet
        const int64_t stop =
            i == ranges_.size() ? end : std::min(end, ranges_[i].begin);
        ranges_.insert(At(i), {position, stop, {}});
      }
      std::vector<uint32_t>& readers = ranges_[i].touch.readers;
      std::erase_if(readers, replaces);
      readers.push_back(op);
      position = ranges_[i].end;
    }
  }

 private:
  struct Touch {
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;
  };
  struct Range {
    int64_t begin, end;
    Touch touch;
  };
  using Ranges = std::vector<Range>;

  Ranges::iterator At(size_t index) {
    return ranges_.begin() + static_cast<Ranges::difference_type>(index);
  }
  size_t FirstEndingAfter(int64_t offset) const {
    const auto found = std::partition_point(
        ranges_.begin(), ranges_.end(),
        [offset](const Range& range) { return range.end <= offset; });
    return static_cast<size_t>(found - ranges_.begin());
  }
  // Makes `offset` a border; the index of the first range that begins there or later.
  size_t SplitAt(int64_t offset) {
    const size_t index = FirstEndingAfter(offset);
    if (index == ranges_.size() || ranges_[index].begin >= offset) return index;
    Range upper = ranges_[index];
    ranges_[index].end = offset;
    upper.begin = offset;
    ranges_.insert(At(index + 1), std::move(upper));
    return index + 1;
  }
  void Replace(size_t first, size_t last, Range range) {
    if (first == last) {
      ranges_.insert(At(first), std::move(range));
      return;
    }
    ranges_[first] = std::move(range);
    ranges_.erase(At(first + 1), At(last));
  }

  Ranges ranges_;  // by first byte; disjoint
};

// Walks operations in program order and reports the waits that each needs.
class WaitBuilder {
 public:
  // Waits of `op`, the next operation in order, as ordinals over all that were added.
  // `given`: waits that it has already and that need not be reported again.
  std::vector<uint32_t> Add(const Plan& plan, const Op& op,
                            const std::vector<uint32_t>& given) {
    const uint32_t ordinal = static_cast<uint32_t>(lanes_.size());
    Known known = last_[Index(op.lane)];
    for (const uint32_t wait : given) Learn(known, wait);

    std::vector<uint32_t> conflicts;
    for (const Access& access : plan.Accesses(op)) {
      history_[static_cast<size_t>(access.tier)].Collect(access, conflicts);
    }
    // The newest first: what it implies need not be waited for.
    std::sort(conflicts.begin(), conflicts.end(), std::greater<>());
    conflicts.erase(std::unique(conflicts.begin(), conflicts.end()), conflicts.end());
    std::vector<uint32_t> waits;
    for (const uint32_t conflict : conflicts) {
      if (IsKnown(known, conflict)) continue;
      waits.push_back(conflict);
      Learn(known, conflict);
    }
    std::sort(waits.begin(), waits.end());

    for (const Access& access : plan.Accesses(op)) {
      history_[static_cast<size_t>(access.tier)].Record(
          access, ordinal, [&](uint32_t reader) {
            return IsKnown(known, reader) ||
                   (lanes_[reader] == op.lane && RunsOneByOne(op.lane));
          });
    }
    lanes_.push_back(op.lane);
    known_.push_back(known);
    if (RunsOneByOne(op.lane)) known[Index(op.lane)] = ordinal + 1;
    last_[Index(op.lane)] = known;
    return waits;
  }

 private:
  // By lane: all its operations with a smaller ordinal are complete. In the nvme lanes,
  // which complete out of order, nothing is ever known that way.
  using Known = std::array<uint32_t, kLaneCount>;

  static size_t Index(Lane lane) { return static_cast<size_t>(lane); }

  bool IsKnown(const Known& known, uint32_t op) const {
    return RunsOneByOne(lanes_[op]) && op < known[Index(lanes_[op])];
  }
  void Learn(Known& known, uint32_t op) const {
    for (int lane = 0; lane < kLaneCount; ++lane) {
      known[lane] = std::max(known[lane], known_[op][lane]);
    }
    if (RunsOneByOne(lanes_[op])) {
      known[Index(lanes_[op])] = std::max(known[Index(lanes_[op])], op + 1);
    }
  }

  std::array<RangeHistory, kTierCount> history_;
  std::vector<Lane> lanes_;   // by ordinal
  std::vector<Known> known_;  // what was complete when the operation began
  std::array<Known, kLaneCount> last_{};
};

}  // namespace

void DeriveWaits(Plan& plan) {
  WaitBuilder builder;
  plan.waits.clear();
  for (Op& op : plan.ops) {
    const std::vector<uint32_t> waits = builder.Add(plan, op, {});
    op.first_wait = static_cast<uint32_t>(plan.waits.size());
    op.wait_count = static_cast<uint32_t>(waits.size());
    plan.waits.insert(plan.waits.end(), waits.begin(), waits.end());
  }
}

std::vector<std::vector<Link::Wait>> DeriveLinks(const Plan& first,
                                                 std::span<const Plan* const> seconds) {
  const auto given = [](const Plan& plan, const Op& op, uint32_t base) {
    std::vector<uint32_t> waits(plan.Waits(op).begin(), plan.Waits(op).end());
    for (uint32_t& wait : waits) wait += base;
    return waits;
  };
  WaitBuilder after_first;
  for (const Op& op : first.ops) after_first.Add(first, op, given(first, op, 0));
  const uint32_t border = static_cast<uint32_t>(first.ops.size());
  std::vector<std::vector<Link::Wait>> links;
  for (const Plan* second : seconds) {
    WaitBuilder builder = after_first;
    std::vector<Link::Wait>& link = links.emplace_back();
    for (uint32_t i = 0; i < second->ops.size(); ++i) {
      const Op& op = second->ops[i];
      for (const uint32_t wait : builder.Add(*second, op, given(*second, op, border))) {
        if (wait < border) link.push_back({i, wait});
      }
    }
  }
  return links;
}

}  // namespace strata
