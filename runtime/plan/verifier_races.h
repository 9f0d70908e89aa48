/// Races: every two operations that touch the same bytes, one of them writing, must be
/// ordered by lanes and waits, within a plan and across each border between two.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/plan/happens_before.h"
#include "runtime/plan/interval_map.h"
#include "runtime/plan/plan.h"

namespace strata::verifier {

/// Who touched a byte range last (or first): the writer, and those that read what it
/// left (or what it found).
struct Touch {
  static constexpr uint32_t kNobody = ~0u;

  Touch() { lane_reader.fill(kNobody); }
  explicit Touch(uint32_t op) : Touch() { writer = op; }

  uint32_t writer = kNobody;
  /// In a lane that runs one by one the newest reader stands for all.
  std::array<uint32_t, kLaneCount> lane_reader;
  std::vector<uint32_t> nvme_readers;

  template <typename Visit>
  void ForEachReader(const Visit& visit) const {
    for (const uint32_t reader : lane_reader) {
      if (reader != kNobody) visit(reader);
    }
    for (const uint32_t reader : nvme_readers) visit(reader);
  }
};
using Touches = std::array<IntervalMap<Touch>, kTierCount>;

/// One plan, proved free of races, with what its borders need to know.
class RaceCheck {
 public:
  /// `set` and `plan` outlive this.
  RaceCheck(const PlanSet& set, const Plan& plan);

  /// Within the plan.
  absl::Status Check();
  /// The results are in host memory, and the inputs read, when result_op is complete.
  absl::Status CheckResults() const;
  /// This plan after `first`. REQUIRES: Check() of both was OK.
  absl::Status CheckLink(const RaceCheck& first, const Link& link) const;

 private:
  absl::Status CheckAccess(uint32_t op, const Access& access) const;
  absl::Status Race(uint32_t first, uint32_t second, const Access& access) const;

  const PlanSet& set_;
  const Plan& plan_;
  HappensBefore order_;
  Touches last_;   // by the operations that no later one supersedes
  Touches first_;  // the same, looking from the end
};

}  // namespace strata::verifier
