/// Files of token ids as the micro-batches of a run. A pass over the files at the start
/// checks every token, counts what is kept and what is not, and lays the samples out in
/// rows; after that rows are read when they are needed, so that a data set costs the
/// memory of an index (16 bytes a sample), whatever its size.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/sample.h"

namespace strata {

struct DatasetOptions {
  int64_t vocab = 0;         // token ids are below
  int64_t max_position = 0;  // no row is longer
  /// Longer samples are cut. Without it they are refused where they exceed
  /// max_position.
  std::optional<int64_t> max_seq_length;
  /// Several samples in a row. Without it: as prepare_data.py was told, no in .jsonl.
  std::optional<bool> packing;
  bool shuffle = true;
  uint64_t seed = 42;
};

/// Of one epoch.
struct DatasetCounters {
  int64_t read = 0;       // samples in the files
  int64_t used = 0;       // samples in rows
  int64_t dropped = 0;    // cut to nothing: empty, or no trained token was left
  int64_t untrained = 0;  // never had a trained token; left out where rows are packed
  int64_t truncated = 0;  // cut, and used
  int64_t tokens = 0;     // in rows
  int64_t trained_tokens = 0;
  int64_t padding_tokens = 0;  // of rows filled up to row_length()
};

/// Immutable; Fill may be called from several threads.
class Dataset {
 public:
  /// `paths`: .jsonl or prepared .safetensors. InvalidArgument, naming file and line,
  /// for a sample that cannot be trained on, and if nothing is left to train on.
  static absl::StatusOr<std::unique_ptr<Dataset>> Open(
      std::span<const std::string> paths, const DatasetOptions& options);

  /// `row_count` rows of max_seq_length random tokens (of max_position without it).
  static std::unique_ptr<Dataset> Synthetic(int64_t row_count,
                                            const DatasetOptions& options);

  int64_t row_count() const { return static_cast<int64_t>(row_begins_.size()) - 1; }
  int64_t row_length() const { return row_length_; }  // tokens of the longest row
  const DatasetCounters& counters() const { return counters_; }
  /// "1000 samples read, 990 used, ...", one line.
  std::string Summary() const;

  /// Fills `batch` with the rows `first`, `first` + 1, .. in the order of `epoch`. What
  /// lies beyond the last row is padding. Blocks, reads files.
  /// REQUIRES: batch.length() >= row_length().
  absl::Status Fill(int64_t epoch, int64_t first, Batch& batch) const;

 private:
  struct Item {  // a sample of one of the sources
    int32_t source;
    int64_t index;
  };
  explicit Dataset(const DatasetOptions& options) : options_(options) {}

  absl::Status OpenSources(std::span<const std::string> paths);
  absl::Status Scan();
  absl::Status ScanSample(const Item& item, Sample& sample);
  absl::Status ReadSample(const Item& item, Sample& sample) const;
  absl::Status CheckTokens(const Item& item, const Sample& sample) const;
  absl::Status CheckLength(const Item& item, int64_t size) const;
  absl::Status RefuseIfUseless(std::span<const std::string> paths) const;
  void LayOutRows();
  std::string Describe(const Item& item) const;

  DatasetOptions options_;
  bool packing_ = false;
  std::vector<std::unique_ptr<SampleSource>> sources_;
  DatasetCounters counters_;
  int64_t row_length_ = 0;
  std::vector<Item> items_;          // the samples that are used, row by row
  std::vector<int64_t> sizes_;       // tokens of each, until rows are laid out
  std::vector<int64_t> row_begins_;  // [rows + 1], positions in items_
};

}  // namespace strata
