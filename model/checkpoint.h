/// A checkpoint: a directory from which a run continues as if it had not stopped.
///
///   checkpoint-300/
///     manifest.json           where the run was; size and checksum of every file
///     model.safetensors       weights under Hugging Face's names
///     remainder.safetensors   bf16 training: what makes the weights fp32 masters
///     moment1.safetensors, moment2.safetensors
///     config.json, tokenizer  so that the directory opens in transformers
///
/// The manifest is written last, and its own first line is its checksum. Files hold
/// settled state only, whole tensors, and nothing of where it rested: any placement can
/// continue. Decision 0005 says why it is so.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/numerics.h"
#include "model/trainer.h"

namespace strata {

inline constexpr const char* kManifestName = "manifest.json";

/// What a run knows beside its trainer's state. Random draws are functions of seeds and
/// these numbers, so that there is no other random state.
struct RunState {
  std::string run_id;  // tells checkpoints of one output directory apart
  int64_t step = 0;    // optimizer steps that were tried, skipped ones too
  int64_t epoch = 0;   // of the next step's first row, and
  int64_t row = 0;     // its position in the epoch's order
  int64_t tokens = 0, trained_tokens = 0;  // so far
  int64_t skipped_steps = 0, clipped_steps = 0;
  int64_t skipped_in_a_row = 0;
  /// A JSON object that the application wants to find again: its settings, its data.
  std::string application = "{}";

  bool operator==(const RunState&) const = default;
};

/// 16 random hexadecimal digits.
std::string MakeRunId();

struct CheckpointFile {
  std::string name;  // in the checkpoint's directory
  int64_t size_bytes = 0;
  uint32_t checksum = 0;  // CRC32C

  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointManifest {
  int64_t saved_unix_milliseconds = 0;
  RunState run;
  TrainerProgress trainer;
  NumericsProfile numerics;
  std::vector<CheckpointFile> files;
};

/// The text of manifest.json, and back. InvalidArgument or DataLoss, with `name`, for a
/// text that is no manifest, of a newer format, or whose checksum is not its own.
std::string FormatManifest(const CheckpointManifest& manifest);
absl::StatusOr<CheckpointManifest> ParseManifest(absl::string_view text,
                                                 absl::string_view name);

/// Reads `directory`/manifest.json. NotFound if there is none.
absl::StatusOr<CheckpointManifest> ReadManifest(const std::string& directory);

/// The same, and reads every file: OK only if each has the size and the checksum that
/// the manifest says. DataLoss or NotFound names the first file at fault.
absl::StatusOr<CheckpointManifest> VerifyCheckpoint(const std::string& directory);

/// Size and checksum of a file. Blocks.
absl::StatusOr<CheckpointFile> DescribeFile(const std::string& directory,
                                            const std::string& name);

}  // namespace strata
