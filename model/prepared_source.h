/// Samples from tools/python/prepare_data.py: a safetensors file with input_ids int32
/// [tokens], labels int32 [tokens] and document_offsets int64 [documents + 1].
///
/// With the metadata packing = "true" every max_seq_length tokens of the stream are a
/// row, and samples are those rows without the padding at their ends. Otherwise, or where the caller wants other rows, a
/// sample is one document.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/safetensors.h"
#include "model/sample.h"

namespace strata {

/// Keeps the file open and 8 bytes for each document.
class PreparedSource final : public SampleSource {
 public:
  /// `row_length`: the caller's, if it asks for one; rows of another length in the file
  /// come apart into their documents, padding among them.
  static absl::StatusOr<std::unique_ptr<PreparedSource>> Open(
      absl::string_view path, std::optional<int64_t> row_length);

  int64_t size() const override;
  absl::Status Read(int64_t index, Sample& sample) const override;
  std::string Describe(int64_t index) const override;
  int64_t packed_length() const override { return packed_length_; }
  bool wants_packing() const override { return wants_packing_; }

 private:
  explicit PreparedSource(std::unique_ptr<SafetensorsFile> file)
      : file_(std::move(file)) {}
  absl::Status FindTensors();
  absl::Status ReadDocuments();
  absl::Status FindRows(std::optional<int64_t> row_length);

  std::unique_ptr<SafetensorsFile> file_;
  const TensorInfo* tokens_ = nullptr;
  const TensorInfo* labels_ = nullptr;
  const TensorInfo* offsets_ = nullptr;
  int64_t packed_length_ = 0;
  bool wants_packing_ = false;
  std::vector<int64_t> document_offsets_;  // rising, from 0 to the number of tokens
};

}  // namespace strata
