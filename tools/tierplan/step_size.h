/// How many rows and micro-batches a step of so many tokens has.
#pragma once

#include <absl/status/statusor.h>

#include "model/run_config.h"
#include "tools/tierplan/plan_command.h"

namespace strata {

struct StepSize {
  int64_t length = 0;         // tokens in a row
  int64_t rows = 0;           // of a micro-batch
  int64_t micro_batches = 0;  // of a step
};

/// What the flags and the JSON say, and where they leave it open: rows of
/// min(2048, max_position) tokens, micro-batches of at most 4096 tokens.
/// InvalidArgument, with the numbers, if they contradict each other.
absl::StatusOr<StepSize> ChooseStepSize(const PlanCommand& command,
                                        const ConfigResolution& resolution,
                                        int64_t max_position);

}  // namespace strata
