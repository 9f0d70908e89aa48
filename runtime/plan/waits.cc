#include "runtime/plan/waits.h"

#include <algorithm>
#include <array>
#include <map>

namespace strata {
namespace {

constexpr uint32_t kNone = ~0u;

// Who touched each byte range last, in one tier: the writer, and the readers since.
class RangeHistory {
 public:
  struct Touch {
    int64_t end;
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;
  };

  // Appends to `conflicts` every operation that an access of this kind must come after.
  void Collect(const Access& access, std::vector<uint32_t>& conflicts) {
    Split(access.offset);
    Split(access.offset + access.size_bytes);
    for (auto it = ranges_.lower_bound(access.offset);
         it != ranges_.end() && it->first < access.offset + access.size_bytes; ++it) {
      if (it->second.writer != kNone) conflicts.push_back(it->second.writer);
      if (access.mode == AccessMode::kWrite) {
        conflicts.insert(conflicts.end(), it->second.readers.begin(),
                         it->second.readers.end());
      }
    }
  }

  // Records that `op` has made the access. `replaces(r)`: reader r need not be kept.
  template <typename Replaces>
  void Record(const Access& access, uint32_t op, const Replaces& replaces) {
    const int64_t end = access.offset + access.size_bytes;
    Split(access.offset);
    Split(end);
    if (access.mode == AccessMode::kWrite) {
      ranges_.erase(ranges_.lower_bound(access.offset), ranges_.lower_bound(end));
      ranges_[access.offset] = {end, op, {}};
      return;
    }
    int64_t position = access.offset;
    for (auto it = ranges_.lower_bound(access.offset); position < end; ++it) {
      if (it == ranges_.end() || it->first > position) {  // a hole: nobody was here yet
        const int64_t stop = it == ranges_.end() ? end : std::min(end, it->first);
        it = ranges_.emplace_hint(it, position, Touch{stop, kNone, {}});
      }
      std::erase_if(it->second.readers, replaces);
      it->second.readers.push_back(op);
      position = it->second.end;
    }
  }

 private:
  void Split(int64_t offset) {
    auto it = ranges_.upper_bound(offset);
    if (it == ranges_.begin()) return;
    --it;
    if (it->first == offset || it->second.end <= offset) return;
    Touch upper = it->second;
    it->second.end = offset;
    ranges_.emplace(offset, std::move(upper));
  }

  std::map<int64_t, Touch> ranges_;  // by first byte; disjoint
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
