/// A plan as the executor steps through it: what can be looked up beforehand, so that a
/// run neither searches nor allocates.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

struct PlanIndex {
  PlanIndex(const StepTrace& trace, const Plan& plan);

  std::array<std::vector<uint32_t>, kLaneCount> lanes;  // each lane's operations
  std::vector<std::string> names;    // of each operation; empty outside nvme lanes
  std::vector<int64_t> moved_bytes;  // by each operation; 0 for those that compute
};

/// The waits of a link by operation of its second plan.
class LinkIndex {
 public:
  LinkIndex(const Link& link, size_t op_count);

  std::span<const Link::Wait> Waits(uint32_t op) const {
    return {waits_ + first_[op], first_[op + 1] - first_[op]};
  }

 private:
  const Link::Wait* waits_;      // not owned
  std::vector<uint32_t> first_;  // [op_count + 1]
};

/// The access of a copy, read or write by its operand.
/// REQUIRES: there is one.
const Access& AccessOf(const Plan& plan, const Op& op, Operand operand);

/// Where in the host arena transfers from and to nvme end and begin, in all plans of
/// `set`: ranges of whole pages, ascending, apart from each other by at least
/// kNvmeRangeGapBytes.
struct HostRange {
  int64_t begin = 0, end = 0;
};
inline constexpr int64_t kNvmeRangeGapBytes = 2 * kMiB;
std::vector<HostRange> NvmeHostRanges(const PlanSet& set);

/// Whose home `extent` is ("block.3/state[2]"), for messages.
std::string DescribeHome(const PlanSet& set, const Extent& extent);

}  // namespace strata
