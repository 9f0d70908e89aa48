#include "runtime/plan/happens_before.h"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::verifier {
namespace {

constexpr uint32_t kNone = ~0u;

void Join(std::span<const uint32_t> from, HappensBefore::Clock& into) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

/// The last operation so far, by lane.
class LaneTails {
 public:
  LaneTails() { last_.fill(kNone); }
  uint32_t& operator[](Lane lane) { return last_[static_cast<size_t>(lane)]; }

 private:
  std::array<uint32_t, kLaneCount> last_;
};

}  // namespace

HappensBefore::HappensBefore(const Plan& plan) : plan_(plan), lengths_(kLaneCount, 0) {
  chain_.reserve(plan.ops.size());
  position_.reserve(plan.ops.size());
  begin_.reserve(plan.ops.size() + 1);
  begin_.push_back(0);
  LaneTails tails;
  Clock clock;
  for (uint32_t op = 0; op < plan.ops.size(); ++op) {
    const Lane lane = plan.ops[op].lane;
    clock.assign(lengths_.size(), 0);
    if (const uint32_t before = tails[lane]; before != kNone) {
      // Operations of every lane start in order, so what one has waited for is complete
      // for the next one too.
      RunsOneByOne(lane) ? JoinEnd(before, clock) : JoinStart(before, clock);
    }
    for (const uint32_t wait : plan.Waits(plan.ops[op])) JoinEnd(wait, clock);
    tails[lane] = op;
    AssignChain(op, clock);
    clocks_.insert(clocks_.end(), clock.begin(), clock.end());
    begin_.push_back(clocks_.size());
  }
}

void HappensBefore::AssignChain(uint32_t op, const Clock& clock) {
  uint32_t chain = static_cast<uint32_t>(plan_.ops[op].lane);
  if (!RunsOneByOne(plan_.ops[op].lane)) {
    chain = kLaneCount;
    while (chain < lengths_.size() && clock[chain] != lengths_[chain]) ++chain;
    if (chain == lengths_.size()) lengths_.push_back(0);
  }
  chain_.push_back(chain);
  position_.push_back(++lengths_[chain]);
}

void HappensBefore::JoinStart(uint32_t op, Clock& clock) const {
  Join(ClockAt(op), clock);
}

void HappensBefore::JoinEnd(uint32_t op, Clock& clock) const {
  JoinStart(op, clock);
  if (clock.size() <= chain_[op]) clock.resize(chain_[op] + 1, 0);
  clock[chain_[op]] = std::max(clock[chain_[op]], position_[op]);
}

LinkedBefore::LinkedBefore(const HappensBefore& first, const Plan& second,
                           const Link& link)
    : first_(first), clocks_(1), clock_of_(second.ops.size()) {
  LaneTails first_tails, tails;
  const Plan& before = first.plan();
  for (uint32_t op = 0; op < before.ops.size(); ++op)
    first_tails[before.ops[op].lane] = op;

  size_t next_wait = 0;
  for (uint32_t op = 0; op < second.ops.size(); ++op) {
    const Lane lane = second.ops[op].lane;
    uint32_t clock = 0;
    if (tails[lane] != kNone) {
      clock = clock_of_[tails[lane]];
    } else if (const uint32_t tail = first_tails[lane]; tail != kNone) {
      HappensBefore::Clock start;
      RunsOneByOne(lane) ? first.JoinEnd(tail, start) : first.JoinStart(tail, start);
      clock = Intern(std::move(start), clock, clock);
    }
    for (const uint32_t wait : second.Waits(second.ops[op])) {
      clock = Joined(clock, clock_of_[wait]);
    }
    for (; next_wait < link.waits.size() && link.waits[next_wait].op == op;
         ++next_wait) {
      if (first.Covers(clocks_[clock], link.waits[next_wait].after)) continue;
      HappensBefore::Clock joined = clocks_[clock];
      first.JoinEnd(link.waits[next_wait].after, joined);
      clock = Intern(std::move(joined), clock, clock);
    }
    tails[lane] = op;
    clock_of_[op] = clock;
  }
}

uint32_t LinkedBefore::Joined(uint32_t a, uint32_t b) {
  if (a == b) return a;
  HappensBefore::Clock joined = clocks_[a];
  Join(clocks_[b], joined);
  return Intern(std::move(joined), a, b);
}

// The number of `clock`, which is a or b where nothing was added to that.
uint32_t LinkedBefore::Intern(HappensBefore::Clock clock, uint32_t a, uint32_t b) {
  if (clock == clocks_[a]) return a;
  if (clock == clocks_[b]) return b;
  clocks_.push_back(std::move(clock));
  return static_cast<uint32_t>(clocks_.size()) - 1;
}

}  // namespace strata::verifier
