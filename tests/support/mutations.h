/// Damages plan sets, each time in one place and one way.
#pragma once

#include <cstdint>
#include <random>
#include <string>

#include "runtime/plan/plan.h"

namespace strata {

enum class MutationKind : int {
  // May be harmless: another wait, or luck, can make up for it.
  kDropWait,        // of one operation of a plan
  kDropLinkWait,    // of one link
  kWrongOffset,     // of an operand that a plan puts somewhere
  kSwapOperations,  // neighbours in the list
  kDropOperation,   // any
  kEarlyResult,     // result_op is an earlier operation
  kShortTransfer,   // half of a copy, read or write
  // Wrong in any case.
  kDropWriteBack,    // a transfer into a home
  kDropZero,         // of an accumulator
  kDuplicateUpdate,  // of a slice
  kWrongLayer,       // of an operation that computes
  kWrongEpoch,       // of a value
  kWrongSource,      // a load takes another layer's or slice's home
  kShrinkArena,      // by one byte
  kDropLink,         // of two plans
  kForwardWait,      // an operation waits for a later one
};
inline constexpr int kMutationKinds = 16;
const char* Name(MutationKind kind);
constexpr bool IsAlwaysWrong(MutationKind kind) {
  return kind >= MutationKind::kDropWriteBack;
}

struct Mutation {
  std::string what;   // for messages; empty: the set has no place for this kind
  int32_t plan = -1;  // that was damaged, or
  int32_t link = -1;
};

Mutation Mutate(MutationKind kind, std::mt19937& random, PlanSet& set);

}  // namespace strata
