/// The budgets that the planner looks for plans at: 32 steps between a power of two and
/// the next. Whatever was found at smaller ones is known at a larger one, too, which
/// makes a larger budget never worse.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "runtime/plan/plan.h"

namespace strata {

constexpr int kLadderStepBits = 5;

/// Bytes of a level; 0 of level 0. Strictly increasing.
constexpr int64_t LadderBytes(int32_t level) {
  constexpr int32_t kSteps = 1 << kLadderStepBits;
  if (level < kSteps) return level;
  const int32_t octave = level / kSteps - 1;
  return int64_t{kSteps + level % kSteps} << octave;
}

/// The highest level of at most so many bytes. REQUIRES: bytes >= 0.
constexpr int32_t LadderLevel(int64_t bytes) {
  constexpr int32_t kSteps = 1 << kLadderStepBits;
  if (bytes < kSteps) return static_cast<int32_t>(bytes);
  const int32_t octave =
      static_cast<int32_t>(std::bit_width(static_cast<uint64_t>(bytes))) - 1 -
      kLadderStepBits;
  return (octave + 1) * kSteps + static_cast<int32_t>((bytes >> octave) - kSteps);
}

/// The lowest level of at least so many bytes.
constexpr int32_t LadderLevelAbove(int64_t bytes) {
  const int32_t level = LadderLevel(bytes);
  return LadderBytes(level) == bytes ? level : level + 1;
}

/// A budget of each tier, as levels.
struct LadderPoint {
  int32_t device = 0, host = 0, nvme = 0;
  int32_t& operator[](TierKind tier) {
    return tier == TierKind::kDevice ? device : tier == TierKind::kHost ? host : nvme;
  }
  TierBytes Bytes() const {
    return {LadderBytes(device), LadderBytes(host), LadderBytes(nvme)};
  }
  friend auto operator<=>(const LadderPoint&, const LadderPoint&) = default;
};

}  // namespace strata
