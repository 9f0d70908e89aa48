/// Brings a Hugging Face directory's weights into a trainer, and a trainer's weights
/// into a Hugging Face directory.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>

#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/trainer.h"

namespace strata {

/// Reads from `checkpoint`, which outlives the reader and was verified against the
/// config.
TensorReader ReadFrom(const HfCheckpoint& checkpoint);

/// Seeded random weights for training from scratch: norms 1, biases 0, everything else
/// normal with standard deviation 0.02. A draw depends on (seed, tensor name, element)
/// only.
TensorReader RandomWeights(uint64_t seed);

/// Writes config.json for weights of `dtype` into `directory`, which exists, and copies
/// the tokenizer's files from `source_directory`, all of them durable.
absl::Status ExportConfig(const HfConfig& config, DType dtype,
                          absl::string_view source_directory,
                          absl::string_view directory);

/// Writes config.json and model.safetensors (in the dtype that was trained) into
/// `directory`, and copies the tokenizer's files from `source_directory` where there
/// are any. Settles the trainer. Each file is written beside and renamed.
absl::Status ExportModel(Trainer& trainer, const HfConfig& config,
                         absl::string_view source_directory,
                         absl::string_view directory);

}  // namespace strata
