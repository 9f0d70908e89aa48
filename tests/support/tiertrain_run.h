/// Runs the tiertrain program on fixture T0 in a directory of the test's own, as a user
/// would, and reads what it leaves behind.
#pragma once

#include <absl/strings/string_view.h>
#include <sys/types.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/fixture_t0.h"
#include "tests/support/temporary_directory.h"

namespace strata {

struct RunOutcome {
  int exit_code = -1;                 // 128 + signal if a signal ended it
  std::string output;                 // standard output, then standard error
  std::string errors;                 // standard error
  std::vector<nlohmann::json> steps;  // lines of the log
  int64_t peak_resident_bytes = 0;    // the most that it held, as the kernel counts
  double Loss(size_t step) const { return steps.at(step)["loss"]; }
  double Norm(size_t step) const { return steps.at(step)["grad_norm"]; }
  std::vector<double> Losses() const;
};

/// Data, configuration and flags of one run. Base case: fp32, AdamW, constant rate, one
/// sequence a step, no clipping, no decay.
struct RunRequest {
  std::vector<std::string> rows;  // lines of the .jsonl
  nlohmann::json deepspeed = BaseConfig();
  std::string flags;                   // added to the command line, split at spaces
  std::vector<std::string> arguments;  // added after them, as they are
  static nlohmann::json BaseConfig();
};

/// A tiertrain that runs beside the test. Killed if the test lets go of it.
class RunningTiertrain {
 public:
  RunningTiertrain(pid_t pid, int output, std::string error_file, std::string log_file);
  ~RunningTiertrain();
  RunningTiertrain(const RunningTiertrain&) = delete;
  RunningTiertrain& operator=(const RunningTiertrain&) = delete;

  /// Blocks until a line of standard output begins with `text`; false if there was none
  /// before the output's end.
  bool WaitForLine(absl::string_view text);
  void Signal(int number) const;
  /// Whether it has ended; does not block.
  bool HasEnded();
  /// Blocks until it has ended.
  RunOutcome Finish();

 private:
  /// `options`: of wait4. False if it has not ended.
  bool Collect(int options);
  pid_t pid_;  // 0: collected
  int exit_code_ = -1;
  int64_t peak_resident_bytes_ = 0;
  std::FILE* output_;
  std::string text_;  // standard output so far
  std::string error_file_, log_file_;
};

/// Its directory holds what the user and tiertrain put there, and nothing else; data
/// and configuration lie elsewhere.
class TiertrainRun {
 public:
  explicit TiertrainRun(const TransformerConfig& config = FixtureT0(), int shards = 1);

  /// One run at a time: data, configuration and log have fixed names.
  RunningTiertrain Start(const RunRequest& request) const;
  RunOutcome Run(const RunRequest& request) const { return Start(request).Finish(); }

  /// Tensors of the exported model, as fp32.
  std::map<std::string, std::vector<float>> Exported() const;
  /// The exported file, byte for byte; "" if there is none.
  std::string ExportedBytes() const;
  /// Paths of everything in the directory, relative to it, sorted.
  std::vector<std::string> List() const;

  const TemporaryDirectory& directory() const { return directory_; }
  std::string model() const { return directory_.File("model"); }
  std::string output() const { return directory_.File("out"); }
  std::string log() const { return directory_.File("log.jsonl"); }
  std::string data() const { return inputs_.File("data.jsonl"); }

 private:
  TemporaryDirectory directory_, inputs_;
};

/// Expects exit code 2, all of `named` in the message, and the directory as it was.
void ExpectRefused(const TiertrainRun& run, const RunRequest& request,
                   const std::vector<std::string>& named);

/// Expects a finished run with these losses, each to the relative `tolerance`.
void ExpectLosses(const RunOutcome& outcome, const std::vector<double>& losses,
                  double tolerance = 1e-5);
void ExpectNear(double actual, double expected, double tolerance = 1e-5);

/// Flags that put everything that can rest in one tier there: "device", "host" or
/// "nvme", whose folder is the run's "swap".
std::string PlacedIn(const TiertrainRun& run, absl::string_view tier);
inline constexpr const char* kTiers[] = {"device", "host", "nvme"};

/// {"input_ids": `tokens`, ...}; `labels` as given, or none.
std::string Row(const std::vector<int32_t>& tokens,
                const std::vector<int32_t>& labels = {},
                const std::vector<int32_t>& document_lengths = {});
/// seqS[:length] of the fixture.
std::vector<int32_t> Seq(int sequence, int64_t length = 16);
/// Rows of `count` sequences.
std::vector<std::string> Sequences(int first, int count, int64_t length = 16);

}  // namespace strata
