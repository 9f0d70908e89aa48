/// The weights of a Hugging Face directory: one model.safetensors, or shards with an
/// index. Every expected tensor comes exactly once and from the right file, or loading
/// is refused before anything is allocated: a model with one random tensor trains
/// without complaint.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/safetensors.h"
#include "model/transformer_config.h"

namespace strata {

/// Where a tensor lies. Both point into the HfCheckpoint.
struct TensorSource {
  const SafetensorsFile* file = nullptr;
  const TensorInfo* info = nullptr;
};

/// The open files of a directory. Thread-safe once it is made.
class HfCheckpoint {
 public:
  /// Opens and checks every header, reads no tensor. With an index the index decides: a
  /// model.safetensors beside it is stale and not opened. InvalidArgument, naming file
  /// and tensor, for a shard that is missing, lies outside of the directory or lacks a
  /// tensor.
  static absl::StatusOr<std::unique_ptr<HfCheckpoint>> Open(
      absl::string_view directory);

  const std::string& directory() const { return directory_; }
  const std::map<std::string, TensorSource>& tensors() const { return tensors_; }
  /// Null if there is no tensor of that name.
  const TensorSource* Find(absl::string_view name) const;

  /// What a user should know and need not act on, one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Checks that the tensors are those of `config`, name by name and shape by shape.
  /// InvalidArgument names the first faults with file, expected and found shape. Rotary
  /// frequencies that old checkpoints store are passed over. A head stored beside tied
  /// embeddings must equal them, for which both are read.
  absl::Status Verify(const TransformerConfig& config) const;

 private:
  explicit HfCheckpoint(absl::string_view directory) : directory_(directory) {}
  absl::StatusOr<const SafetensorsFile*> OpenFile(const std::string& name);
  absl::Status OpenSingle();
  absl::Status OpenIndexed(const std::string& index_text);
  void CheckAgainstIndex(absl::string_view index_name, int64_t total_size_bytes);
  std::string FileOf(absl::string_view tensor) const;

  std::string directory_;
  std::map<std::string, std::unique_ptr<SafetensorsFile>>
      files_;  // by name in directory
  std::map<std::string, TensorSource> tensors_;
  std::vector<std::string> warnings_;
};

}  // namespace strata
