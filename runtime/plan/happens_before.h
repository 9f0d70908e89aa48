/// Which operations of a plan are complete when another one starts, in every execution
/// that lanes and waits allow.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata::verifier {

/// Operations form chains, in each of which one is complete before the next starts: the
/// operations of a lane that runs one by one, or operations of the nvme lanes that
/// waits happen to order. A clock says, by chain, how many operations of it are
/// complete.
class HappensBefore {
 public:
  using Clock = std::vector<uint32_t>;  // absent: 0

  /// REQUIRES: waits point backwards. `plan` outlives this.
  explicit HappensBefore(const Plan& plan);

  const Plan& plan() const { return plan_; }

  /// Is `first` complete before `second` starts, whenever both run?
  bool Before(uint32_t first, uint32_t second) const {
    return Covers(ClockAt(second), first);
  }
  /// Is `op` among what `clock` says is complete?
  bool Covers(std::span<const uint32_t> clock, uint32_t op) const {
    return chain_[op] < clock.size() && clock[chain_[op]] >= position_[op];
  }

  /// What is complete when `op` starts.
  std::span<const uint32_t> ClockAt(uint32_t op) const {
    return {clocks_.data() + begin_[op], begin_[op + 1] - begin_[op]};
  }
  /// Adds to `clock` what is complete when `op` starts; with `op` itself in the second.
  void JoinStart(uint32_t op, Clock& clock) const;
  void JoinEnd(uint32_t op, Clock& clock) const;

 private:
  void AssignChain(uint32_t op, const Clock& clock);

  const Plan& plan_;
  std::vector<uint32_t> chain_, position_;  // by operation; positions count from 1
  std::vector<uint32_t> lengths_;           // by chain
  std::vector<uint32_t> clocks_;  // of operation i: [begin_[i], begin_[i + 1])
  std::vector<size_t> begin_;
};

/// The same across the border of two linked plans.
class LinkedBefore {
 public:
  /// `first` outlives this.
  LinkedBefore(const HappensBefore& first, const Plan& second, const Link& link);

  /// Is operation `first` of the first plan complete before `second` of the second
  /// starts?
  bool Before(uint32_t first, uint32_t second) const {
    return first_.Covers(clocks_[clock_of_[second]], first);
  }

 private:
  uint32_t Joined(uint32_t a, uint32_t b);
  uint32_t Intern(HappensBefore::Clock clock, uint32_t a, uint32_t b);

  const HappensBefore& first_;
  // Clocks over the chains of the first plan. Most operations share one with others.
  std::vector<HappensBefore::Clock> clocks_;
  std::vector<uint32_t> clock_of_;  // by operation of the second plan
};

}  // namespace strata::verifier
