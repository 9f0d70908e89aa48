/// From a command line to a trainer that can run: everything that can be refused is
/// refused here, before anything is created.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/checkpoint_folder.h"
#include "model/dataset.h"
#include "model/generation.h"
#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/run_config.h"
#include "model/trainer.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/device.h"
#include "tools/tiertrain/command_line.h"
#include "tools/tiertrain/resume.h"

namespace strata {

/// What a step takes from the data.
struct StepSizes {
  int64_t rows = 0;           // of a micro-batch
  int64_t micro_batches = 0;  // of a full step
  int64_t steps_per_epoch = 0;
  int64_t last_micro_batches = 0;  // of the last step of an epoch
  int64_t dropped_rows = 0;        // of an epoch, where its partial step is dropped
  int64_t total_steps = 0;
};

/// What --generate asks for.
struct GenerationTask {
  std::vector<std::vector<int32_t>> prompts;  // none is empty
  int64_t rows = 0;                           // prompts that go through at once
  int64_t length = 0;                         // of the longest, with its new tokens
  GenerationOptions options;
};

/// Members are destroyed in reverse order: the trainer before what it uses.
struct TrainingRun {
  TrainCommand command;
  HfConfig model_config;
  ConfigResolution resolution;
  RunConfig config;                          // completed
  std::unique_ptr<HfCheckpoint> checkpoint;  // null from scratch, or resumed
  std::optional<ResumePoint> resume;
  std::optional<NumericsProfile> required_numerics;
  std::string required_numerics_name;
  std::string run_id;
  std::unique_ptr<Dataset> train_data, eval_data;
  StepSizes sizes;
  std::optional<GenerationTask> generation;  // in place of data and steps
  int64_t parameters = 0;
  MachineProfile profile;
  std::string profile_source;  // "measured, FILE" or "a preset, ... because ..."
  std::unique_ptr<CpuDevice> cpu;
  std::unique_ptr<Device> cuda;      // null on the CPU
  Device* device = nullptr;          // the one that computes
  int64_t process_bytes_before = 0;  // resident before the arenas
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<CheckpointFolder> folder;  // null if nothing is saved
};

/// Reads and checks configuration, model, and data or prompts.
absl::Status PrepareRun(TrainingRun& run);

/// Devices, budgets, and options of the trainer but for the store.
absl::StatusOr<TrainerOptions> MakeTrainerOptions(TrainingRun& run);

/// Layers, shape and dtype.
absl::StatusOr<ModelShape> MakeModel(const TrainingRun& run);

/// A plan's error with the flags that set its budgets; any other as it is.
absl::Status NameBudgets(const absl::Status& status);

/// Plans, allocates and loads the weights, or the checkpoint: for training, or for
/// run.generation.
absl::Status StartTrainer(TrainingRun& run);

}  // namespace strata
