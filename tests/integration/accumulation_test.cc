/// Law 2: k micro-batches of b rows train what one of k x b rows trains, whatever share
/// of each is trained.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

constexpr int kRows = 8;  // of a step
constexpr int kSteps = 3;

/// Rows of 16 tokens, of which each trains another number, from 1 to all.
std::vector<std::string> UnequalRows() {
  std::vector<std::string> rows;
  for (int r = 0; r < kRows * kSteps; ++r) {
    std::vector<int32_t> labels = Seq(r);
    const int ignored = 15 - r * 3 % 16;
    std::fill(labels.begin(), labels.begin() + ignored, -100);
    rows.push_back(Row(Seq(r), labels));
  }
  return rows;
}

struct Trained {
  RunOutcome outcome;
  std::map<std::string, std::vector<float>> weights;
};

Trained Train(int micro_batch, bool bf16) {
  const TiertrainRun run;
  RunRequest request{.rows = UnequalRows(), .flags = "--num_train_epochs 1"};
  request.deepspeed["train_micro_batch_size_per_gpu"] = micro_batch;
  request.deepspeed["gradient_accumulation_steps"] = kRows / micro_batch;
  // With a small eps the first update is the sign of the gradient, and rounding decides
  // the sign of what is nearly zero.
  request.deepspeed["optimizer"]["params"]["eps"] = 1e-3;
  if (bf16) request.deepspeed["bf16"] = {{"enabled", true}};
  Trained trained{run.Run(request), {}};
  EXPECT_EQ(trained.outcome.exit_code, 0) << trained.outcome.output;
  if (trained.outcome.exit_code == 0) trained.weights = run.Exported();
  return trained;
}

double LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max<double>(largest, std::abs(a[i] - b[i]));
  }
  return largest;
}

/// `tolerance` relative in what is logged, `weight_tolerance` absolute.
void ExpectSameTraining(bool bf16, double tolerance, double weight_tolerance) {
  const Trained whole = Train(kRows, bf16);
  ASSERT_EQ(whole.outcome.steps.size(), size_t{kSteps});
  for (const int micro_batch : {4, 2, 1}) {
    SCOPED_TRACE(micro_batch);
    const Trained parts = Train(micro_batch, bf16);
    ExpectLosses(parts.outcome, whole.outcome.Losses(), tolerance);
    for (size_t s = 0; s < parts.outcome.steps.size(); ++s) {
      ExpectNear(parts.outcome.Norm(s), whole.outcome.Norm(s), tolerance);
      EXPECT_EQ(parts.outcome.steps[s]["trained_tokens"],
                whole.outcome.steps[s]["trained_tokens"]);
    }
    for (const auto& [name, values] : whole.weights) {
      EXPECT_LE(LargestDifference(values, parts.weights.at(name)), weight_tolerance)
          << name;
    }
  }
}

TEST(Accumulation, MicroBatchesEqualOneLargeOneToFp32Rounding) {
  ExpectSameTraining(false, 1e-6, 1e-6);
}

// Sums in fp32 that differ in their last bits may round to neighbours in bf16: 2^-8 of
// a gradient, and of a weight, which is 1.2 at most. A mean of means is off by
// percents.
TEST(Accumulation, MicroBatchesEqualOneLargeOneToARoundingOfBf16) {
  ExpectSameTraining(true, 1.0 / 256, 1.2 / 256);
}

}  // namespace
}  // namespace strata
