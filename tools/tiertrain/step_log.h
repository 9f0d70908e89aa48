/// --log_file: one JSON object for every optimizer step. docs/cli.md lists the fields.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "model/trainer.h"

namespace strata {

struct TrainingRun;

struct StepRecord {
  int64_t step = 0;  // from 1
  double epoch = 0;
  double learning_rate = 0;
  int64_t tokens = 0;  // without padding
  int64_t trained_tokens_total = 0;
  StepResult result;
};

class StepLog {
 public:
  /// Truncates the file.
  static absl::StatusOr<std::unique_ptr<StepLog>> Create(const std::string& path);
  /// Keeps the lines of steps up to `last_step` and drops what follows: steps that a
  /// resumed run takes again, and half a line. Makes the file if it is missing.
  /// InvalidArgument, and nothing is dropped, if a line is not a step's.
  static absl::StatusOr<std::unique_ptr<StepLog>> Continue(const std::string& path,
                                                           int64_t last_step);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// Appends a line and hands it to the system at once.
  absl::Status Write(const StepRecord& record, const TrainingRun& run);

 private:
  StepLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  std::string path_;
  std::FILE* file_;
};

}  // namespace strata
