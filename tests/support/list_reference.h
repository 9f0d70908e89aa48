/// What running plans must give, bit for bit: an interpreter that executes operations
/// one by one in list order, and an OperationRunner that computes the same with an
/// executor. Every result is a hash of all operands, so that one wrong byte anywhere
/// shows.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "runtime/plan/executor.h"
#include "runtime/plan/plan.h"

namespace strata {

/// Thread-safe.
class HashRunner final : public OperationRunner {
 public:
  absl::Status Run(const OpCall& call, Stream& stream) override;
};

/// The three tiers' bytes.
class ListReference {
 public:
  explicit ListReference(const PlanSet& set);

  /// Gives every home on host and nvme, and the inputs, random contents, here and in
  /// `executor`. REQUIRES: drained.
  absl::Status Fill(std::mt19937& random, Executor& executor);
  void Run(int32_t plan);

  /// Internal, saying where, unless `executor` holds the same bytes on all tiers.
  /// REQUIRES: drained.
  absl::Status Compare(Executor& executor) const;

 private:
  std::byte* Address(const Access& access);

  const PlanSet& set_;
  std::vector<std::byte> tiers_[kTierCount];
  std::vector<Extent> nvme_homes_;  // as the plans read them
};

}  // namespace strata
