/// An IntervalMap remembers something about each byte range of an address space: what
/// it holds, who touched it last. Ranges are half open, and whoever changes a part of
/// one splits it.
#pragma once

#include <absl/container/btree_map.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace strata {

/// T is copied when a range is split, so it must mean the same for both parts.
template <typename T>
class IntervalMap {
 public:
  struct Range {
    int64_t end;
    T value;
  };
  using Ranges = absl::btree_map<int64_t, Range>;  // by first byte; disjoint

  const Ranges& ranges() const { return ranges_; }

  /// Calls visit(first, last, value) for every range that overlaps [begin, end), in
  /// order and as a whole, also where it reaches out of it. Stops where `visit` returns
  /// false.
  template <typename Visit>
  void ForEach(int64_t begin, int64_t end, const Visit& visit) const {
    for (auto it = FirstEndingAfter(begin); it != ranges_.end() && it->first < end;
         ++it) {
      if (!visit(it->first, it->second.end, it->second.value)) return;
    }
  }

  /// Makes [begin, end) hold `value` and nothing else.
  void Assign(int64_t begin, int64_t end, T value) {
    auto it = ranges_.lower_bound(begin);
    if (it != ranges_.end() && it->first == begin && it->second.end == end) {
      it->second.value =
          std::move(value);  // buffers are mostly reused as they were cut
      return;
    }
    it = Clear(begin, end);
    ranges_.insert(it, {begin, Range{end, std::move(value)}});
  }

  /// Makes [begin, end) hold nothing.
  void Erase(int64_t begin, int64_t end) { Clear(begin, end); }

  /// Calls change(value) for every part of [begin, end), first giving parts that hold
  /// nothing a T{}.
  template <typename Change>
  void Update(int64_t begin, int64_t end, const Change& change) {
    auto it = SplitAt(begin);
    while (begin < end) {
      if (it == ranges_.end() || it->first > begin) {
        const int64_t stop = it == ranges_.end() ? end : std::min(end, it->first);
        it = ranges_.insert(it, {begin, Range{stop, T{}}});
      } else if (it->second.end > end) {
        SplitAt(end);
        it = ranges_.find(begin);
      }
      change(it->second.value);
      begin = it->second.end;
      ++it;
    }
  }

 private:
  typename Ranges::const_iterator FirstEndingAfter(int64_t offset) const {
    auto it = ranges_.upper_bound(offset);
    if (it != ranges_.begin()) {
      const auto before = std::prev(it);
      if (before->second.end > offset) return before;
    }
    return it;
  }

  // No range contains `offset` in its inside afterwards. Returns the first range that
  // begins there or later.
  typename Ranges::iterator SplitAt(int64_t offset) {
    auto it = ranges_.lower_bound(offset);
    if (it == ranges_.begin()) return it;
    const auto before = std::prev(it);
    if (before->second.end <= offset) return it;
    Range upper = before->second;
    before->second.end = offset;
    return ranges_.insert(it, {offset, std::move(upper)});
  }

  // Returns where a range that begins at `begin` belongs.
  typename Ranges::iterator Clear(int64_t begin, int64_t end) {
    SplitAt(end);
    auto first = SplitAt(begin);
    auto last = first;
    while (last != ranges_.end() && last->first < end) ++last;
    return ranges_.erase(first, last);
  }

  Ranges ranges_;
};

}  // namespace strata
