#include "tests/support/exact_runs.h"

#include "tests/support/serial_trainer.h"

namespace strata {

Trace RunSerial(const Scenario& scenario, int steps) {
  const ModelShape model = ToyModel(scenario.toy);
  SerialTrainer trainer(model, scenario.optimizer, 1);
  EXPECT_TRUE(trainer.LoadWeights(ToyWeights()).ok());
  Trace trace;
  for (int step = 0; step < steps; ++step) {
    if (!RunStep(trainer, model, scenario, step, trace)) return trace;
  }
  trace.weights = trainer.Weights();
  trace.masters = trainer.State(StateKind::kMaster);
  trace.moments1 = trainer.State(StateKind::kMoment1);
  trace.moments2 = trainer.State(StateKind::kMoment2);
  return trace;
}

Trace RunTiered(const ToyTrainer& toy, const Scenario& scenario, int steps) {
  Trace trace;
  if (toy.trainer == nullptr) return trace;
  EXPECT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  for (int step = 0; step < steps; ++step) {
    if (!RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace)) {
      return trace;
    }
  }
  Collect(*toy.trainer, trace);
  return trace;
}

}  // namespace strata
