/// Law 1, and that deferred, lagged and immediate updates are what a barrier before the
/// update gives: the same bits, wherever everything rests and in whatever order it
/// goes. Decisions are random here, more mixed than any planner makes them;
/// exactness_matrix_test takes those that it makes, one after the other.

#include <gtest/gtest.h>

#include "tests/support/exact_runs.h"

namespace strata {
namespace {

constexpr int kSteps = 50;

void ExpectExact(const Scenario& scenario, uint32_t first_seed) {
  const Trace serial = RunSerial(scenario, kSteps);
  if (scenario.optimizer.max_grad_norm > 0) {
    EXPECT_GT(serial.clipped, 5);
    EXPECT_LT(serial.clipped, kSteps - 10);
    EXPECT_GT(serial.skipped, 3);
  }
  for (uint32_t seed = first_seed; seed < first_seed + 8; ++seed) {
    SCOPED_TRACE(seed);
    ExpectEqual(serial, RunTiered(MakeToyTrainer(scenario, seed), scenario, kSteps));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Exactness, ClippedStepsOfAnFp32Model) {
  ExpectExact({{}, {.weight_decay = 0.1, .max_grad_norm = 4.4}}, 100);
}

TEST(Exactness, ClippedStepsOfATiedBf16Model) {
  ExpectExact({{.dtype = DType::kBF16, .tied = true},
               {.weight_decay = 0.1, .max_grad_norm = 4.3}},
              200);
}

TEST(Exactness, ClippedStepsWithFrozenTensors) {
  ExpectExact({{.dtype = DType::kBF16, .frozen_blocks = 1}, {.max_grad_norm = 2.32}},
              300);
}

TEST(Exactness, ClippedStepsOfAModelWithBiases) {
  ExpectExact({{.dtype = DType::kBF16, .tied = true, .biased = true},
               {.weight_decay = 0.1, .max_grad_norm = 4.3}},
              600);
}

TEST(Exactness, ImmediateUpdatesOfAModelWithNormsOfHeads) {
  ExpectExact({{.qk_norm = true}, {.weight_decay = 0.1}}, 700);
}

TEST(Exactness, ImmediateUpdatesOfATiedModelWithoutClipping) {
  ExpectExact({{.tied = true}, {.weight_decay = 0.1, .decoupled_decay = false}}, 400);
}

TEST(Exactness, ImmediateUpdatesOfABf16Model) {
  ExpectExact({{.dtype = DType::kBF16}, {.weight_decay = 0.01}}, 500);
}

}  // namespace
}  // namespace strata
