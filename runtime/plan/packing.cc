#include "runtime/plan/packing.h"

#include <algorithm>
#include <array>

namespace strata {
namespace {

struct Lifetime {
  int32_t buffer;
  int32_t begin, end;  // positions, both inclusive
};

// Lifetimes in order of their beginning, extended so that a pool's slots are disjoint.
std::vector<Lifetime> Lifetimes(const std::vector<VirtualBuffer>& buffers,
                                const std::vector<int32_t>& slots) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].first_use >= 0) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return buffers[a].first_use < buffers[b].first_use;
  });
  std::array<std::vector<int32_t>, kPoolCount * kTierCount> first_uses;
  std::vector<Lifetime> lifetimes;
  for (const int32_t index : order) {
    const VirtualBuffer& buffer = buffers[index];
    const size_t pool = static_cast<size_t>(buffer.pool);
    auto& earlier = first_uses[pool * kTierCount + static_cast<size_t>(buffer.tier)];
    earlier.push_back(buffer.first_use);
    int32_t begin = buffer.first_use;
    const size_t ahead = static_cast<size_t>(std::max(slots[pool], 1)) - 1;
    if (ahead > 0)
      begin = earlier[earlier.size() - 1 - std::min(ahead, earlier.size() - 1)];
    lifetimes.push_back({index, begin, buffer.last_use});
  }
  std::stable_sort(
      lifetimes.begin(), lifetimes.end(),
      [](const Lifetime& a, const Lifetime& b) { return a.begin < b.begin; });
  return lifetimes;
}

struct Occupied {
  int64_t begin, end;  // bytes
  int32_t until;       // position, inclusive
};

// Lowest offset with room for `size_bytes` among `occupied`, which is sorted by begin.
int64_t FirstFit(const std::vector<Occupied>& occupied, int64_t base,
                 int64_t size_bytes) {
  int64_t offset = base;
  for (const Occupied& range : occupied) {
    if (range.begin - offset >= size_bytes) break;
    offset = std::max(offset, range.end);
  }
  return offset;
}

// Where compute takes the memory of something that a copy lane still reads, it waits
// for that lane. So the two kinds of buffers do not share memory.
enum class Part { kMoved, kComputed };

Part PartOf(const VirtualBuffer& buffer) {
  return buffer.pool == Pool::kCompute || buffer.pool == Pool::kUnbounded
             ? Part::kComputed
             : Part::kMoved;
}

TierBytes PackPart(std::vector<VirtualBuffer>& buffers,
                   const std::vector<int32_t>& slots, const TierBytes& base,
                   Part part) {
  TierBytes high = base;
  std::array<std::vector<Occupied>, kTierCount> occupied;
  for (const Lifetime& lifetime : Lifetimes(buffers, slots)) {
    if (PartOf(buffers[lifetime.buffer]) != part) continue;
    VirtualBuffer& buffer = buffers[lifetime.buffer];
    auto& live = occupied[static_cast<size_t>(buffer.tier)];
    std::erase_if(live, [&](const Occupied& o) { return o.until < lifetime.begin; });
    const int64_t alignment = ArenaAlignment(buffer.tier);
    const int64_t size = AlignUp(buffer.size_bytes, alignment);
    buffer.offset = FirstFit(live, AlignUp(base[buffer.tier], alignment), size);
    const Occupied range{buffer.offset, buffer.offset + size, lifetime.end};
    live.insert(std::upper_bound(live.begin(), live.end(), range,
                                 [](const Occupied& a, const Occupied& b) {
                                   return a.begin < b.begin;
                                 }),
                range);
    high[buffer.tier] = std::max(high[buffer.tier], range.end);
  }
  return high;
}

}  // namespace

TierBytes PackBuffers(std::vector<VirtualBuffer>& buffers,
                      const std::vector<int32_t>& slots, const TierBytes& base) {
  const TierBytes moved = PackPart(buffers, slots, base, Part::kMoved);
  return PackPart(buffers, slots, moved, Part::kComputed);
}

}  // namespace strata
