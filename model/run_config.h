/// A training run's configuration: what the flags and the DeepSpeed JSON come to, with
/// the source of every value. Nothing below this page asks the flags or the JSON again.
///
/// Resolution: a key that is "auto" or absent in the JSON takes its flag; a value there
/// that differs from a typed flag is refused, naming both. Without flag and key it is
/// DeepSpeed's default where the section is there, else that of transformers' Trainer.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/config_note.h"
#include "model/deepspeed_config.h"
#include "model/schedule.h"
#include "model/train_flags.h"
#include "runtime/base/types.h"

namespace strata {

struct BatchConfig {
  int64_t micro_batch_size = 8;  // rows
  int64_t accumulation_steps = 1;
  bool drop_last = false;  // of an epoch: the step that would be partial

  int64_t train_batch_size() const { return micro_batch_size * accumulation_steps; }
  bool operator==(const BatchConfig&) const = default;
};

struct LossScaleConfig {    // fp16
  double static_scale = 0;  // 0: dynamic
  int64_t initial_power = 16;
  int64_t window_steps = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double minimum = 1;

  bool operator==(const LossScaleConfig&) const = default;
};

struct OptimizerConfig {
  double learning_rate = 5e-5;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = true;  // AdamW; false adds the decay to the gradient
  bool decay_norms = false;     // whether norms and biases decay
  double max_grad_norm = 1;     // 0: no clipping

  bool operator==(const OptimizerConfig&) const = default;
};

struct PlacementConfig {
  PlacementFlags pins;  // unset: the planner's choice
  /// The first elements of weights that rest on nvme stay in host memory.
  int64_t weights_in_host_elements = 0;
  std::vector<NvmePath> nvme_paths;

  bool operator==(const PlacementConfig&) const = default;
};

/// Sizes in elements. The plan does better without them; they are printed, not used.
struct ZeroConfig {
  int64_t stage = 0;
  int64_t reduce_bucket_size = 500000000;
  int64_t allgather_bucket_size = 500000000;
  int64_t prefetch_bucket_size = 50000000;
  int64_t param_persistence_threshold = 100000;
  int64_t max_live_parameters = 1000000000;
  int64_t max_reuse_distance = 1000000000;
  int64_t sub_group_size = 1000000000;

  bool operator==(const ZeroConfig&) const = default;
};

struct AioConfig {
  int64_t block_size_bytes = 1048576;
  int64_t queue_depth = 8;
  int64_t threads = 1;

  bool operator==(const AioConfig&) const = default;
};

struct LogConfig {
  std::string tensorboard_directory;  // empty: none
  std::string csv_directory;          // empty: none
  int64_t steps_per_print = 0;        // 0: as logging_steps says
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  int64_t flops_profile_step = 0;  // 0: none

  bool operator==(const LogConfig&) const = default;
};

struct RunConfig {
  BatchConfig batch;
  DType dtype = DType::kF32;  // of weights and activations
  LossScaleConfig loss_scale;
  /// A non-finite gradient skips the step, as with clipping, instead of ending the run.
  bool check_grad_overflow = false;
  OptimizerConfig optimizer;
  Schedule schedule;        // total_steps 0: not known before the data are
  double warmup_ratio = 0;  // where it decides schedule.warmup_steps once they are
  PlacementConfig placement;
  ZeroConfig zero;
  AioConfig aio;
  LogConfig log;

  int64_t max_steps = -1;  // -1: num_train_epochs decides
  double num_train_epochs = 3;
  int64_t seed = 42;
  int64_t logging_steps = 500;
  std::optional<int64_t> save_steps;  // unset: no checkpoints
  std::optional<int64_t> save_total_limit;
  std::optional<int64_t> eval_steps;
  std::optional<int64_t> max_seq_length;
  bool shuffle = true;
  std::optional<bool> packing;

  bool operator==(const RunConfig&) const = default;
};

struct ResolvedValue {
  std::string path;  // in the JSON, or the flag
  std::string value;
  std::string source;  // "ds.json:12", "--learning_rate", "default of DeepSpeed"
};

struct ConfigInputs {
  std::string deepspeed_text;
  std::string deepspeed_name;  // empty: no file
  TrainFlags flags;
  int64_t hidden = 0;  // of the model: some sizes that are "auto" follow from it
};

struct ConfigResolution {
  RunConfig config;  // of no use if there are faults
  ConfigReport report;
  std::string deepspeed_name;
  bool has_optimizer_section = false;
  std::vector<ResolvedValue> values;
  std::vector<IgnoredKey> ignored;

  /// InvalidArgument with every fault, one a line; OK if there is none.
  absl::Status status() const;
};

ConfigResolution ResolveConfig(const ConfigInputs& inputs);

/// Sets what depends on the length of the run, once the data are known: steps_per_epoch
/// optimizer steps in one epoch. Returns the warnings to print.
/// REQUIRES: steps_per_epoch >= 1.
std::vector<ConfigNote> CompleteSchedule(RunConfig& config, int64_t steps_per_epoch);

/// Unimplemented, saying what to choose instead, for what can be configured and not
/// trained yet.
absl::Status CheckTrainable(const RunConfig& config);

}  // namespace strata
