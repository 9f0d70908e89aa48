/// Runs of toy models that tests compare bit for bit: data that clip, skip and train
/// nothing at times, under plans of all kinds.
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

/// More than any plan asks for.
inline constexpr int64_t kAmpleBytes = int64_t{1} << 40;

/// What is unusual about one step of a training.
struct StepEvents {
  bool partial = false;    // one micro-batch only
  bool poisoned = false;   // its gradient is not finite, if updates wait for that
  bool untrained = false;  // no position has a target
  bool evaluated = false;  // an evaluation follows
};

/// Every kind of event, at periods that fall together in many ways.
StepEvents LongRunEvents(int step);
/// Every kind of event once within kShortRunSteps, and ordinary steps around each.
StepEvents ShortRunEvents(int step);
inline constexpr int kShortRunSteps = 7;

struct Scenario {
  ToyOptions toy;
  OptimizerSettings optimizer;
  StepEvents (*events)(int step) = LongRunEvents;
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

/// Micro-batches of a step, as its events have it.
std::vector<Batch> BatchesOf(const ModelShape& model, const Scenario& scenario,
                             int step);

/// Runs one step of any kind of trainer, and the evaluation after it; false if it
/// failed, which it reports.
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
  if (!scenario.events(step).evaluated) return true;
  const Batch held_out = ToyBatch(model, 9999, 0.9, false);
  const auto loss = trainer.Evaluate(std::vector<MicroBatch>(2, Borrow(held_out)));
  EXPECT_TRUE(loss.ok()) << loss.status();
  if (loss.ok()) trace.numbers.push_back(*loss);
  return loss.ok();
}

/// A trainer of the scenario's model on a device of its own, without weights yet. Null,
/// and reported, if it cannot be made.
struct ToyTrainer {
  std::unique_ptr<Device> device;
  std::unique_ptr<Trainer> trainer;
};
/// `options`: budgets, pins, overrides and, for another one than a store in memory,
/// make_store; the rest is filled in. `memory`: what the device has of each kind.
ToyTrainer MakeToyTrainer(const Scenario& scenario, TrainerOptions options,
                          const TierBytes& memory = {kAmpleBytes, kAmpleBytes, 0});
/// Under the random plan of `seed`.
using MakeStore =
    std::function<absl::StatusOr<std::unique_ptr<Store>>(const StoreNeeds& needs)>;
ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed,
                          MakeStore make_store = {});
/// What MakeToyTrainer(scenario, options) would plan.
absl::StatusOr<PlannedStep> PlanToyTrainer(const Scenario& scenario,
                                           TrainerOptions options);

/// Reads the tensors of a trainer into a trace.
void Collect(Trainer& trainer, Trace& trace);

}  // namespace strata
