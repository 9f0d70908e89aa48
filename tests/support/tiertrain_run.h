/// Runs the tiertrain program on fixture T0 in a directory of the test's own, as a user
/// would, and reads what it leaves behind.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/fixture_t0.h"
#include "tests/support/temporary_directory.h"

namespace strata {

struct RunOutcome {
  int exit_code = -1;
  std::string output;                 // standard output and error
  std::vector<nlohmann::json> steps;  // lines of the log
  double Loss(size_t step) const { return steps.at(step)["loss"]; }
  double Norm(size_t step) const { return steps.at(step)["grad_norm"]; }
};

/// Data, configuration and flags of one run. Base case: fp32, AdamW, constant rate, one
/// sequence a step, no clipping, no decay.
struct RunRequest {
  std::vector<std::string> rows;  // lines of the .jsonl
  nlohmann::json deepspeed = BaseConfig();
  std::string flags;  // added to the command line
  static nlohmann::json BaseConfig();
};

class TiertrainRun {
 public:
  explicit TiertrainRun(const TransformerConfig& config = FixtureT0(), int shards = 1);

  RunOutcome Run(const RunRequest& request) const;
  /// Tensors of the exported model, as fp32.
  std::map<std::string, std::vector<float>> Exported() const;

  const TemporaryDirectory& directory() const { return directory_; }
  std::string model() const { return directory_.File("model"); }
  std::string output() const { return directory_.File("out"); }

 private:
  TemporaryDirectory directory_;
};

/// {"input_ids": sequences' first `length` tokens, ...}; `labels` as given, or none.
std::string Row(const std::vector<int32_t>& tokens,
                const std::vector<int32_t>& labels = {},
                const std::vector<int32_t>& document_lengths = {});
/// seqS[:length] of the fixture.
std::vector<int32_t> Seq(int sequence, int64_t length = 16);

}  // namespace strata
