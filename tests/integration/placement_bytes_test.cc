/// Law 1 from outside: where things rest, how drives are read and how much memory there
/// is never change a bit of what is logged and exported.

#include <gtest/gtest.h>

#include <regex>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

struct Training {
  bool bf16 = false;
  double clipping = 0;
};

RunRequest RequestOf(const Training& training, const std::string& flags) {
  RunRequest request{.rows = Sequences(0, 9), .flags = "--num_train_epochs 1 " + flags};
  request.deepspeed["gradient_accumulation_steps"] = 2;  // the last step is partial
  request.deepspeed["gradient_clipping"] = training.clipping;
  request.deepspeed["optimizer"]["params"]["weight_decay"] = 0.1;
  if (training.bf16) request.deepspeed["bf16"] = {{"enabled", true}};
  return request;
}

std::string Nvme(const TiertrainRun& run) {
  return " --nvme_path " + run.directory().File("swap") + ":64MiB ";
}

/// What a run left, and whether its steps were clipped.
struct Result {
  std::vector<std::pair<double, double>> losses_and_norms;
  std::string bytes;
  int clipped = 0;
};

Result ResultOf(const TiertrainRun& run, const RunOutcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  Result result{.bytes = run.ExportedBytes()};
  for (size_t s = 0; s < outcome.steps.size(); ++s) {
    result.losses_and_norms.emplace_back(outcome.Loss(s), outcome.Norm(s));
    result.clipped += outcome.steps[s]["clipped"].get<bool>();
  }
  return result;
}

Result ResultOf(const TiertrainRun& run, const RunRequest& request) {
  return ResultOf(run, run.Run(request));
}

void ExpectEqual(const Result& result, const Result& expected) {
  EXPECT_EQ(result.losses_and_norms, expected.losses_and_norms);
  EXPECT_TRUE(result.bytes == expected.bytes) << "the exported files differ";
}

/// The bytes that the refusal of a budget of `flag` asks for.
std::string LeastBudget(const TiertrainRun& run, const Training& training,
                        const std::string& flags, const std::string& flag) {
  const RunOutcome refused = run.Run(RequestOf(training, flags + flag + "1KiB"));
  EXPECT_EQ(refused.exit_code, 2) << refused.output;
  std::smatch match;
  const std::regex asks("(?:to|of) ([0-9]+) bytes \\([^)]*\\), the cheapest change");
  EXPECT_TRUE(std::regex_search(refused.errors, match, asks)) << refused.errors;
  return match[1];
}

class PlacementBytes : public testing::TestWithParam<Training> {
 protected:
  PlacementBytes() : expected_(ResultOf(TiertrainRun(), RequestOf(GetParam(), ""))) {
    EXPECT_EQ(expected_.losses_and_norms.size(), 5u);
    EXPECT_EQ(expected_.clipped > 0, GetParam().clipping > 0);
  }
  const Result expected_;
};

TEST_P(PlacementBytes, DoNotDependOnTheTier) {
  const std::string mixed[] = {
      "--placement weights=host,optimizer=nvme,gradients=device,activations=host",
      "--placement weights=nvme,optimizer=device,gradients=host,activations=nvme"};
  for (const char* tier : kTiers) {
    SCOPED_TRACE(tier);
    const TiertrainRun run;
    ExpectEqual(ResultOf(run, RequestOf(GetParam(), PlacedIn(run, tier))), expected_);
  }
  for (const std::string& placement : mixed) {
    SCOPED_TRACE(placement);
    const TiertrainRun run;
    ExpectEqual(ResultOf(run, RequestOf(GetParam(), placement + Nvme(run))), expected_);
  }
}

TEST_P(PlacementBytes, DoNotDependOnTheBackend) {
  for (const std::string backend : {"threads", "libaio", "io_uring"}) {
    SCOPED_TRACE(backend);
    const TiertrainRun run;
    const RunOutcome outcome = run.Run(
        RequestOf(GetParam(), "--io_backend " + backend + PlacedIn(run, "nvme")));
    if (outcome.exit_code == 2) {  // not offered here: said, never replaced in silence
      EXPECT_NE(outcome.errors.find(backend), std::string::npos) << outcome.errors;
      EXPECT_NE(backend, "threads");
      continue;
    }
    ExpectEqual(ResultOf(run, outcome), expected_);
  }
}

// The least that a refusal names is enough, too.
TEST_P(PlacementBytes, DoNotDependOnTheBudgets) {
  const TiertrainRun run;
  for (const std::string& placement :
       {std::string(), PlacedIn(run, "host") + " ", PlacedIn(run, "nvme") + " "}) {
    for (const std::string flag : {"--device_memory ", "--host_memory "}) {
      SCOPED_TRACE(placement + flag);
      const std::string least = LeastBudget(run, GetParam(), placement, flag);
      ExpectEqual(ResultOf(run, RequestOf(GetParam(), placement + flag + least)),
                  expected_);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Trainings, PlacementBytes,
                         testing::Values(Training{false, 0}, Training{false, 5.2},
                                         Training{true, 0}, Training{true, 5.2}),
                         [](const auto& training) {
                           return std::string(training.param.bf16 ? "Bf16" : "Fp32") +
                                  (training.param.clipping > 0 ? "Clipped" : "");
                         });

}  // namespace
}  // namespace strata
