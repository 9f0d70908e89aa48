/// The directory in which a run keeps its checkpoints. A checkpoint appears in it whole
/// or not at all, whenever the process is killed; the oldest ones go when the new one
/// is complete, never before.
///
///   auto folder = CheckpointFolder::Open("out");
///   (*folder)->Save(trainer, {.run = state, .keep_max = 2});      //
///   out/checkpoint-300
///   ...
///   auto found = FindLatestCheckpoint("out");
///   RestoreTrainer(trainer, found->directory, found->manifest);
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/trainer.h"

namespace strata {

struct SaveRequest {
  RunState run;
  /// How many checkpoints of this run stay, the new one counted; others' always do.
  std::optional<int64_t> keep_max;
  /// Writes the application's own files into the directory of the checkpoint, which
  /// makes them durable and checks them like its own; may be empty.
  std::function<absl::Status(const std::string& directory)> write_extras;
};

/// Not thread-safe. While it lives, no other process has one of the same directory.
class CheckpointFolder {
 public:
  /// Makes the directory if it is missing, locks it, and removes what a killed save of
  /// ours left there. FailedPrecondition if another process has it.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(
      const std::string& directory);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& directory() const { return directory_; }
  /// Temporary directories of killed saves that Open removed.
  const std::vector<std::string>& removed() const { return removed_; }

  /// Settles `trainer`, writes checkpoint-STEP beside and renames it, then removes what
  /// is over keep_max. Returns its path. After an error there is nothing new in the
  /// directory; if bytes are short, that is ResourceExhausted with what is needed and
  /// what is free. A checkpoint of that name is replaced.
  absl::StatusOr<std::string> Save(Trainer& trainer, const SaveRequest& request);

 private:
  CheckpointFolder(std::string directory, int lock)
      : directory_(std::move(directory)), lock_(lock) {}
  absl::Status Write(Trainer& trainer, const SaveRequest& request,
                     const std::string& temporary);
  absl::Status Publish(const std::string& temporary, const std::string& path);
  absl::Status RemoveOldest(const SaveRequest& request, const std::string& newest);
  void RemoveStale();

  std::string directory_;
  int lock_;  // descriptor of the directory
  std::vector<std::string> removed_;
};

/// Directories named checkpoint-N, by N.
std::vector<std::string> ListCheckpoints(const std::string& directory);

struct FoundCheckpoint {
  std::string directory;
  CheckpointManifest manifest;
  /// "out/checkpoint-6 is passed over: ...", one for each that is not complete.
  std::vector<std::string> passed_over;
};

/// The complete checkpoint that was saved last; reads it all. NotFound if there is
/// none, with why each directory was passed over.
absl::StatusOr<FoundCheckpoint> FindLatestCheckpoint(const std::string& directory);

}  // namespace strata
