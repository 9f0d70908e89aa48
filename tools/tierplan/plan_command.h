/// What people type to tierplan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/train_flags.h"
#include "tools/cli/flags.h"

namespace strata {

struct PlanCommand {
  std::string model;  // directory or name of a built-in shape
  std::optional<cli::Size> device_memory, host_memory, nvme;
  std::optional<std::string> hardware;
  std::optional<std::string> deepspeed_file;
  std::optional<int64_t> tokens_per_step;
  std::optional<std::string> placement;  // Finish() puts it into `flags`
  TrainFlags flags;
  bool sweep = false;
  std::string json;

  /// Checks what the table of flags cannot.
  absl::Status Finish();
};

/// The table of flags over `command`, which outlives it.
cli::Flags PlanFlagTable(PlanCommand& command);

}  // namespace strata
