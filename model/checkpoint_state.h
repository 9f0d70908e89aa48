/// The tensors of a checkpoint: a trainer's parts into safetensors files, and back. In
/// memory is never more than a slice.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/trainer.h"

namespace strata {

/// Bytes of the files that SaveTensors writes, but for their headers.
int64_t TensorBytes(const ModelShape& model);

/// Settles `trainer` and writes NAME.safetensors for each of its parts, durable when
/// this returns. The directory exists.
absl::StatusOr<std::vector<CheckpointFile>> SaveTensors(Trainer& trainer,
                                                        const std::string& directory);

/// Makes `trainer`, which has not stepped, what it was when the checkpoint was saved.
/// InvalidArgument, naming file and tensor, if the model is another one.
/// REQUIRES: `manifest` is what VerifyCheckpoint(directory) returned.
absl::Status RestoreTrainer(Trainer& trainer, const std::string& directory,
                            const CheckpointManifest& manifest);

}  // namespace strata
