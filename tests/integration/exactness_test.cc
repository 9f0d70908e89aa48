/// Law 1, and that deferred, lagged and immediate updates are what a barrier before the
/// update gives: the same bits, wherever everything rests and in whatever order it
/// goes.

#include <gtest/gtest.h>

#include "tests/support/serial_trainer.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

constexpr int kSteps = 50;

Trace RunSerial(const ModelShape& model, const Scenario& scenario) {
  SerialTrainer trainer(model, scenario.optimizer, 1);
  EXPECT_TRUE(trainer.LoadWeights(ToyWeights()).ok());
  Trace trace;
  for (int step = 0; step < kSteps; ++step) {
    if (!RunStep(trainer, model, scenario, step, trace)) return trace;
  }
  trace.weights = trainer.Weights();
  trace.masters = trainer.State(StateKind::kMaster);
  trace.moments1 = trainer.State(StateKind::kMoment1);
  trace.moments2 = trainer.State(StateKind::kMoment2);
  return trace;
}

Trace RunTiered(const Scenario& scenario, uint32_t seed) {
  const ToyTrainer toy = MakeToyTrainer(scenario, seed);
  Trace trace;
  if (toy.trainer == nullptr) return trace;
  EXPECT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  for (int step = 0; step < kSteps; ++step) {
    if (!RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace)) {
      return trace;
    }
  }
  Collect(*toy.trainer, trace);
  return trace;
}

void ExpectExact(const Scenario& scenario, uint32_t first_seed) {
  const ModelShape model = ToyModel(scenario.toy);
  const Trace serial = RunSerial(model, scenario);
  if (scenario.optimizer.max_grad_norm > 0) {
    EXPECT_GT(serial.clipped, 5);
    EXPECT_LT(serial.clipped, kSteps - 10);
    EXPECT_GT(serial.skipped, 3);
  }
  for (uint32_t seed = first_seed; seed < first_seed + 8; ++seed) {
    SCOPED_TRACE(seed);
    ExpectEqual(serial, RunTiered(scenario, seed));
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

TEST(Exactness, ImmediateUpdatesOfATiedModelWithoutClipping) {
  ExpectExact({{.tied = true}, {.weight_decay = 0.1, .decoupled_decay = false}}, 400);
}

TEST(Exactness, ImmediateUpdatesOfABf16Model) {
  ExpectExact({{.dtype = DType::kBF16}, {.weight_decay = 0.01}}, 500);
}

}  // namespace
}  // namespace strata
