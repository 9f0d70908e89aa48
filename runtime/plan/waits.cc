#include "runtime/plan/waits.h"

#include <absl/container/btree_map.h>

#include <algorithm>
#include <array>

namespace strata {
namespace {

constexpr uint32_t kNone = ~0u;

// Who touched each byte range last, in one tier: the writer, and the readers since.
class RangeHistory {
 public:
  // Appends to `conflicts` every operation that an access of this kind must come after.
  void Collect(const Access& access, std::vector<uint32_t>& conflicts) const {
    const int64_t end = access.offset + access.size_bytes;
    for (auto it = FirstEndingAfter(access.offset);
         it != ranges_.end() && it->first < end; ++it) {
      if (it->second.writer != kNone) conflicts.push_back(it->second.writer);
      if (access.mode == AccessMode::kWrite) {
        conflicts.insert(conflicts.end(), it->second.readers.begin(),
                         it->second.readers.end());
      }
    }
  }

  // Records that `op` writes there.
  void Write(const Access& access, uint32_t op) {
    const int64_t end = access.offset + access.size_bytes;
    auto it = ranges_.lower_bound(access.offset);
    if (it != ranges_.end() && it->first == access.offset && it->second.end == end) {
      it->second.writer = op;  // buffers are mostly used again as they were cut
      it->second.readers.clear();
      return;
    }
    Erase(access);
    ranges_.insert({access.offset, Touch{end, op, {}}});
  }

  // Records that `op` reads there. `replaces(r)`: reader r need not be kept.
  template <typename Replaces>
  void Read(const Access& access, uint32_t op, const Replaces& replaces) {
    const int64_t end = access.offset + access.size_bytes;
    Split(access.offset);
    Split(end);
    int64_t position = access.offset;
    for (auto it = ranges_.lower_bound(position); position < end; ++it) {
      if (it == ranges_.end() || it->first > position) {  // a hole: nobody was here yet
        const int64_t stop = it == ranges_.end() ? end : std::min(end, it->first);
        it = ranges_.insert(it, {position, Touch{stop, kNone, {}}});
      }
      auto& readers = it->second.readers;
      std::erase_if(readers, replaces);
      readers.push_back(op);
      position = it->second.end;
    }
  }

  // Forgets who touched the range.
  void Erase(const Access& access) {
    const int64_t end = access.offset + access.size_bytes;
    const auto overlap = FirstEndingAfter(access.offset);
    if (overlap == ranges_.end() || overlap->first >= end) return;
    Split(access.offset);
    Split(end);
    ranges_.erase(ranges_.lower_bound(access.offset), ranges_.lower_bound(end));
  }

 private:
  struct Touch {
    int64_t end;
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;
  };
  using Ranges = absl::btree_map<int64_t, Touch>;  // by first byte; disjoint

  Ranges::const_iterator FirstEndingAfter(int64_t offset) const {
    const auto it = ranges_.upper_bound(offset);
    if (it == ranges_.begin()) return it;
    const auto before = std::prev(it);
    return before->second.end > offset ? before : it;
  }

  void Split(int64_t offset) {
    auto it = ranges_.lower_bound(offset);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.end <= offset) return;
    Touch upper = it->second;
    it->second.end = offset;
    ranges_.insert({offset, std::move(upper)});
  }

  Ranges ranges_;
};

// Walks operations in program order and knows what is complete when each begins.
class WaitBuilder {
 public:
  // Waits of `op`, the next operation in order, as ordinals over all that were added.
  std::vector<uint32_t> Add(const Plan& plan, const Op& op) {
    Known known = last_[Index(op.lane)];
    std::vector<uint32_t> waits = Missing(plan, op, known);
    Record(plan, op, known);
    Finish(op, known);
    return waits;
  }

  // Adds an operation that has its waits already.
  void AddGiven(const Plan& plan, const Op& op) {
    Known known = last_[Index(op.lane)];
    for (const uint32_t wait : plan.Waits(op)) Learn(known, wait);
    Record(plan, op, known);
    Finish(op, known);
  }

  // Waits of `op`, of a plan that follows the first `border` operations and has its own
  // waits, on those. What later operations of that plan must wait for because of this
  // one is in their own waits, so only what it overwrites need be kept track of.
  std::vector<uint32_t> AddFollower(const Plan& plan, const Op& op, uint32_t border) {
    Known known = last_[Index(op.lane)];
    for (const uint32_t wait : plan.Waits(op)) Learn(known, border + wait);
    std::vector<uint32_t> waits = Missing(plan, op, known);
    for (const Access& access : plan.Accesses(op)) {
      if (access.mode == AccessMode::kWrite) HistoryOf(access).Erase(access);
    }
    Finish(op, known);
    return waits;
  }

 private:
  // By lane: all its operations with a smaller ordinal are complete. In the nvme lanes,
  // which complete out of order, nothing is ever known that way.
  using Known = std::array<uint32_t, kLaneCount>;

  static size_t Index(Lane lane) { return static_cast<size_t>(lane); }
  RangeHistory& HistoryOf(const Access& access) {
    return history_[static_cast<size_t>(access.tier)];
  }

  // The conflicts that `known` does not imply; then it does.
  std::vector<uint32_t> Missing(const Plan& plan, const Op& op, Known& known) {
    conflicts_.clear();
    for (const Access& access : plan.Accesses(op)) {
      HistoryOf(access).Collect(access, conflicts_);
    }
    std::erase_if(conflicts_, [&](uint32_t other) { return IsKnown(known, other); });
    // The newest first: what it implies need not be waited for.
    std::sort(conflicts_.begin(), conflicts_.end(), std::greater<>());
    conflicts_.erase(std::unique(conflicts_.begin(), conflicts_.end()),
                     conflicts_.end());
    std::vector<uint32_t> waits;
    for (const uint32_t conflict : conflicts_) {
      if (IsKnown(known, conflict)) continue;
      waits.push_back(conflict);
      Learn(known, conflict);
    }
    std::reverse(waits.begin(), waits.end());
    return waits;
  }

  void Record(const Plan& plan, const Op& op, const Known& known) {
    const uint32_t ordinal = static_cast<uint32_t>(lanes_.size());
    const auto replaces = [&](uint32_t reader) {
      return IsKnown(known, reader) ||
             (lanes_[reader] == op.lane && RunsOneByOne(op.lane));
    };
    for (const Access& access : plan.Accesses(op)) {
      if (access.mode == AccessMode::kWrite) {
        HistoryOf(access).Write(access, ordinal);
      } else {
        HistoryOf(access).Read(access, ordinal, replaces);
      }
    }
  }

  void Finish(const Op& op, Known& known) {
    const uint32_t ordinal = static_cast<uint32_t>(lanes_.size());
    lanes_.push_back(op.lane);
    known_.push_back(known);
    if (RunsOneByOne(op.lane)) known[Index(op.lane)] = ordinal + 1;
    last_[Index(op.lane)] = known;
  }

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
  std::vector<uint32_t> conflicts_;  // scratch
};

}  // namespace

void DeriveWaits(Plan& plan) {
  WaitBuilder builder;
  plan.waits.clear();
  for (Op& op : plan.ops) {
    const std::vector<uint32_t> waits = builder.Add(plan, op);
    op.first_wait = static_cast<uint32_t>(plan.waits.size());
    op.wait_count = static_cast<uint32_t>(waits.size());
    plan.waits.insert(plan.waits.end(), waits.begin(), waits.end());
  }
}

std::vector<std::vector<Link::Wait>> DeriveLinks(const Plan& first,
                                                 std::span<const Plan* const> seconds) {
  WaitBuilder after_first;
  for (const Op& op : first.ops) after_first.AddGiven(first, op);
  const uint32_t border = static_cast<uint32_t>(first.ops.size());
  std::vector<std::vector<Link::Wait>> links;
  for (const Plan* second : seconds) {
    WaitBuilder builder = after_first;
    std::vector<Link::Wait>& link = links.emplace_back();
    for (uint32_t i = 0; i < second->ops.size(); ++i) {
      for (const uint32_t wait : builder.AddFollower(*second, second->ops[i], border)) {
        link.push_back({i, wait});
      }
    }
  }
  return links;
}

}  // namespace strata
