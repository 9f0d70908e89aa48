/// Rotary tables are computed in more than bf16, whatever the weights are in: in bf16
/// positions above 256 fall together. The values were computed in double precision, for
/// bf16 with the weights rounded to bf16 and exact tables.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

struct Case {
  int64_t tokens;
  double fp32, bf16, bf16_tables;
};

constexpr Case kCases[] = {{1024, 4.6603805, 4.6603349, 4.6519430},
                           {4160, 4.5218042, 4.5216908, 4.5340367}};

/// One block; only the last 64 tokens are trained, far from the start.
RunOutcome TrainOn(int64_t tokens, bool bf16) {
  TransformerConfig config = FixtureT0();
  config.layers = 1;
  config.max_position = 8192;
  config.dtype = bf16 ? DType::kBF16 : DType::kF32;
  std::vector<int32_t> labels = Seq(5, tokens);
  std::fill(labels.begin(), labels.end() - 64, -100);
  RunRequest request{.rows = {Row(Seq(5, tokens), labels)}, .flags = "--max_steps 1"};
  if (bf16) request.deepspeed["bf16"] = {{"enabled", true}};
  return TiertrainRun(config).Run(request);
}

TEST(RotaryCases, Fp32LossesAtLongContext) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.tokens);
    const RunOutcome outcome = TrainOn(c.tokens, false);
    ExpectLosses(outcome, {c.fp32});
    EXPECT_EQ(outcome.steps[0]["trained_tokens"], 64);
  }
}

// Activations round to eight bits, which moves a mean over 64 tokens by far less than
// the tables would.
TEST(RotaryCases, Bf16LossesAtLongContextHaveExactTables) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.tokens);
    const RunOutcome outcome = TrainOn(c.tokens, true);
    ExpectLosses(outcome, {c.bf16}, 1e-3);
    ASSERT_FALSE(outcome.steps.empty());
    EXPECT_GT(std::abs(outcome.Loss(0) - c.bf16_tables),
              2 * std::abs(outcome.Loss(0) - c.bf16));
  }
}

}  // namespace
}  // namespace strata
