/// What people type to tiertrain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/train_flags.h"
#include "tools/cli/flag_value.h"
#include "tools/cli/flags.h"

namespace strata {

/// The command line as typed; texts that TrainFlags holds parsed are parsed by Finish.
struct TrainCommand {
  std::string model_directory;
  bool from_scratch = false;
  std::vector<std::string> train_files;
  std::optional<std::string> eval_file;
  bool synthetic_data = false;
  std::optional<std::string> deepspeed_file;
  std::optional<std::string> output_directory;
  std::optional<std::string> resume_from_checkpoint;
  std::optional<std::string> numerics_file;
  bool autotune = false, allow_other_numerics = false;
  std::string device = "auto";
  std::optional<cli::Size> device_memory, host_memory;
  std::vector<std::string> nvme_paths;
  std::optional<std::string> placement;
  std::string io_backend = "auto";
  int64_t threads = 0;
  bool explain_config = false, explain_plan = false;
  std::optional<std::string> log_file, timeline, logits_file;
  std::optional<std::string> prompt_file;
  std::optional<int64_t> max_new_tokens;
  std::optional<double> temperature;
  TrainFlags flags;

  /// Checks what the table of flags cannot, and fills flags.placement and nvme_paths.
  absl::Status Finish();
};

/// The table of flags over `command`, which outlives it.
cli::Flags TrainFlagTable(TrainCommand& command);

}  // namespace strata
