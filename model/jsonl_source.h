/// Samples as JSON lines: {"input_ids": [..], "labels": [..], "document_lengths":
/// [..]}. Without labels every token is trained; without document_lengths a line is one
/// document.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/sample.h"

namespace strata {

/// Keeps the file open and 16 bytes for each line; lines are parsed when they are read.
class JsonlSource final : public SampleSource {
 public:
  /// Finds the lines that are not blank. Reads the file once.
  static absl::StatusOr<std::unique_ptr<JsonlSource>> Open(absl::string_view path);
  ~JsonlSource() override;
  JsonlSource(const JsonlSource&) = delete;
  JsonlSource& operator=(const JsonlSource&) = delete;

  int64_t size() const override { return static_cast<int64_t>(lines_.size()); }
  absl::Status Read(int64_t index, Sample& sample) const override;
  std::string Describe(int64_t index) const override;

 private:
  struct Line {
    int64_t offset_bytes = 0;
    int32_t size_bytes = 0;
    int32_t number = 0;  // 1-based
  };
  JsonlSource(absl::string_view path, int descriptor)
      : path_(path), descriptor_(descriptor) {}
  absl::Status FindLines();
  absl::Status AddLine(int64_t begin, int64_t end, int64_t number);

  std::string path_;
  int descriptor_;
  std::vector<Line> lines_;
};

}  // namespace strata
