/// What each operation of a plan must read and write, by its code (the table of
/// docs/decisions/0002-plans-are-sequential-programs.md), and what work a plan must do.
#pragma once

#include <absl/status/status.h>

#include <cstdint>

#include "runtime/plan/plan.h"

namespace strata::verifier {

/// The operation runs in a lane of its code and has exactly the operands that its code,
/// layer, micro-batch and slice need: tier, size, value and part of the value.
/// REQUIRES: CheckStructure.
absl::Status CheckOperands(const PlanSet& set, const Plan& plan, uint32_t op);

/// Every layer and micro-batch is computed once, every slice reduced, updated and
/// speculated as often as the plan's key says. REQUIRES: CheckOperands of every
/// operation.
absl::Status CheckWork(const PlanSet& set, const Plan& plan);

/// Is the slice's last step pending when this plan starts?
inline bool StartsPending(const PlanKey& key, const SliceLayout& slice) {
  return key.start != Border::kSettled && slice.mode != UpdateMode::kImmediate;
}

/// Does its forward read a speculated weight of this slice?
inline bool StartsSpeculated(const PlanKey& key, const SliceLayout& slice) {
  return key.kind == PlanKind::kTrain && key.start == Border::kPending &&
         slice.mode == UpdateMode::kLagged;
}

/// Bytes of a slice's part of a value that is laid out by element.
struct Part {
  int64_t offset, size_bytes;
};
inline Part PartOf(const SliceLayout& slice, int64_t element_bytes) {
  return {slice.begin * element_bytes, slice.elements() * element_bytes};
}

}  // namespace strata::verifier
