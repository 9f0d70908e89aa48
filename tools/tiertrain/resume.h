/// Checkpoints of a tiertrain run: which one it goes on from, whether it may, and what
/// it writes beside the trainer's tensors.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <optional>
#include <string>

#include "model/checkpoint.h"

namespace strata {

struct TrainingRun;
struct TrainCommand;

/// Where a run goes on.
struct ResumePoint {
  std::string directory;
  CheckpointManifest manifest;
};

/// Reads --resume_from_checkpoint, if it was typed: finds the latest complete
/// checkpoint, or verifies the one that is named. Prints what was passed over.
absl::Status FindResumePoint(TrainingRun& run);

/// Refuses a checkpoint of another model, of other data or another batch, since its
/// position there would mean nothing; prints every other setting that has changed.
/// REQUIRES: data and sizes are known.
absl::Status CheckResumePoint(const TrainingRun& run);

/// Reads --numerics FILE, if it is to be read.
absl::Status ReadRequiredNumerics(TrainingRun& run);

/// Writes --numerics FILE, if it is to be written, and prints how the numerics differ
/// from the checkpoint's, where that was allowed. REQUIRES: there is a trainer.
absl::Status FinishNumerics(const TrainingRun& run);

/// What --threads is without having been typed: what decided bits before, else all
/// cores.
int DefaultThreads(const TrainingRun& run);

/// Opens the output directory for checkpoints, if there will be any; prints what it
/// finds there that is not this run's, and whether there is room.
absl::Status OpenCheckpointFolder(TrainingRun& run);

/// Saves the trainer after `state.step` steps. Returns the path.
absl::StatusOr<std::string> SaveRunCheckpoint(TrainingRun& run, RunState state);

}  // namespace strata
