/// What is to be planned: everything that the command line and the files come to.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "model/trainer.h"
#include "model/transformer_config.h"
#include "tools/machine/find_profile.h"
#include "tools/tierplan/plan_command.h"

namespace strata {

struct PlanQuestion {
  std::string model;  // as typed
  TransformerConfig shape;
  MicroBatchShape micro_batch;
  int32_t micro_batches = 1;
  DType dtype = DType::kBF16;
  OptimizerSettings optimizer;
  PlacementPins pins;
  Budgets budgets;  // as typed: the device's counts what is outside the arena
  FoundProfile machine;
  std::vector<std::string> notes;  // what was assumed, for the reader

  int64_t tokens_per_step() const { return micro_batch.tokens() * micro_batches; }
  /// Bytes of the device's budget that no arena can have.
  int64_t device_overhead_bytes() const {
    return machine.profile.device_overhead_bytes;
  }
};

/// Reads what `command` names and resolves it as tiertrain would. Errors are the
/// user's.
absl::StatusOr<PlanQuestion> MakeQuestion(const PlanCommand& command);

/// Plans. ResourceExhausted if nothing fits.
absl::StatusOr<PlannedStep> Answer(const PlanQuestion& question);

}  // namespace strata
