/// Runs of toy models that tests compare bit for bit: data that clip, skip and train
/// nothing at times, under random plans.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/trainer.h"
#include "tests/support/toy_model.h"

namespace strata {

struct Scenario {
  ToyOptions toy;
  OptimizerSettings optimizer;
};

using Tensors = std::map<std::string, std::vector<float>>;

/// What a run of a trainer leaves behind.
struct Trace {
  std::vector<double> numbers;  // losses, norms, evaluations
  int clipped = 0, skipped = 0;
  Tensors weights, masters, moments1, moments2;
};

/// Equal as bits: NaNs too.
void ExpectEqual(const Trace& a, const Trace& b);

double LearningRateOf(int step);

/// Micro-batches of a step: fewer at times, some poisoned, step 20 with nothing to
/// train.
std::vector<Batch> BatchesOf(const ModelShape& model, const Scenario& scenario,
                             int step);

/// Runs one step of any kind of trainer, and an evaluation after each ninth; false if
/// it failed, which it reports.
template <typename AnyTrainer>
bool RunStep(AnyTrainer& trainer, const ModelShape& model, const Scenario& scenario,
             int step, Trace& trace) {
  const std::vector<Batch> batches = BatchesOf(model, scenario, step);
  std::vector<MicroBatch> borrowed;
  for (const Batch& batch : batches) borrowed.push_back(Borrow(batch));
  const auto result = trainer.Step(borrowed, LearningRateOf(step));
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return false;
  trace.numbers.push_back(result->loss);
  trace.numbers.push_back(result->grad_norm);
  trace.clipped += result->clipped;
  trace.skipped += result->skipped;
  if (step % 9 != 8) return true;
  const Batch held_out = ToyBatch(model, 9999, 0.9, false);
  const auto loss = trainer.Evaluate(std::vector<MicroBatch>(2, Borrow(held_out)));
  EXPECT_TRUE(loss.ok()) << loss.status();
  if (loss.ok()) trace.numbers.push_back(*loss);
  return loss.ok();
}

/// A trainer of the scenario's model under the random plan of `seed`, on a device of
/// its own, without weights yet. Null, and reported, if it cannot be made.
struct ToyTrainer {
  std::unique_ptr<Device> device;
  std::unique_ptr<Trainer> trainer;
};
ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed);
/// The same with a store of the caller's.
using MakeStore =
    std::function<absl::StatusOr<std::unique_ptr<Store>>(const StoreNeeds& needs)>;
ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed,
                          const MakeStore& make_store);

/// Reads the tensors of a trainer into a trace.
void Collect(Trainer& trainer, Trace& trace);

}  // namespace strata
