/// Law 3: save, die, resume equals not having stopped, bit for bit, whatever is pending
/// at the save and wherever the resumed run keeps its state.

#include <gtest/gtest.h>

#include <filesystem>

#include "model/checkpoint_folder.h"
#include "model/checkpoint_state.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

constexpr int kSteps = 30;

Trace RunWithoutStopping(const Scenario& scenario, uint32_t seed) {
  const ToyTrainer toy = MakeToyTrainer(scenario, seed);
  Trace trace;
  EXPECT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  for (int step = 0; step < kSteps; ++step) {
    if (!RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace)) {
      return trace;
    }
  }
  Collect(*toy.trainer, trace);
  return trace;
}

/// Ends after each step that `dies` names, and goes on in another trainer under another
/// plan, from the checkpoint alone.
template <typename Dies>
Trace RunWithDeaths(const Scenario& scenario, uint32_t seed, const Dies& dies) {
  const TemporaryDirectory directory;
  Trace trace;
  ToyTrainer toy = MakeToyTrainer(scenario, seed);
  EXPECT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  for (int step = 0; step < kSteps; ++step) {
    if (!RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace)) {
      return trace;
    }
    if (!dies(step)) continue;
    {
      const auto folder = CheckpointFolder::Open(directory.path());
      EXPECT_TRUE(folder.ok()) << folder.status();
      const auto saved = (*folder)->Save(
          *toy.trainer, {.run = {.run_id = "toy", .step = step + 1}, .keep_max = 1});
      EXPECT_TRUE(saved.ok()) << saved.status();
    }
    const TrainerProgress progress = toy.trainer->progress();
    toy.trainer.reset();  // before its device
    toy = MakeToyTrainer(scenario, ++seed);
    const auto found = FindLatestCheckpoint(directory.path());
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) return trace;
    EXPECT_EQ(found->manifest.run.step, step + 1);
    EXPECT_EQ(found->manifest.trainer, progress);
    EXPECT_EQ(found->passed_over, std::vector<std::string>());
    const absl::Status status =
        RestoreTrainer(*toy.trainer, found->directory, found->manifest);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(ListCheckpoints(directory.path()).size(), 1u);
  }
  Collect(*toy.trainer, trace);
  return trace;
}

void ExpectExact(const Scenario& scenario, uint32_t seed) {
  const Trace whole = RunWithoutStopping(scenario, seed);
  if (scenario.optimizer.max_grad_norm > 0) {
    EXPECT_GT(whole.clipped, 3);
    EXPECT_GT(whole.skipped, 2);
  }
  ExpectEqual(whole, RunWithDeaths(scenario, seed + 1, [](int) { return true; }));
  ExpectEqual(whole, RunWithDeaths(scenario, seed + 100,
                                   [](int step) { return step % 5 == 2; }));
}

TEST(CheckpointExactness, ClippedStepsOfAnFp32Model) {
  ExpectExact({{}, {.weight_decay = 0.1, .max_grad_norm = 4.4}}, 1000);
}

TEST(CheckpointExactness, ClippedStepsOfATiedBf16Model) {
  ExpectExact({{.dtype = DType::kBF16, .tied = true},
               {.weight_decay = 0.1, .max_grad_norm = 4.3}},
              2000);
}

TEST(CheckpointExactness, ClippedStepsWithFrozenTensors) {
  ExpectExact({{.dtype = DType::kBF16, .frozen_blocks = 1}, {.max_grad_norm = 2.32}},
              3000);
}

TEST(CheckpointExactness, ImmediateUpdatesOfAnFp32Model) {
  ExpectExact({{.tied = true}, {.weight_decay = 0.1, .decoupled_decay = false}}, 4000);
}

TEST(CheckpointExactness, ImmediateUpdatesOfABf16Model) {
  ExpectExact({{.dtype = DType::kBF16}, {.weight_decay = 0.01}}, 5000);
}

TEST(CheckpointExactness, SavingDoesNotChangeTheRunThatGoesOn) {
  const Scenario scenario{{.dtype = DType::kBF16}, {.max_grad_norm = 4.3}};
  const TemporaryDirectory directory;
  const auto folder = CheckpointFolder::Open(directory.path());
  ASSERT_TRUE(folder.ok());
  ToyTrainer toy = MakeToyTrainer(scenario, 7);
  ASSERT_TRUE(toy.trainer->LoadWeights(ToyWeights()).ok());
  Trace trace;
  for (int step = 0; step < kSteps; ++step) {
    ASSERT_TRUE(RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace));
    const auto saved = (*folder)->Save(
        *toy.trainer, {.run = {.run_id = "toy", .step = step + 1}, .keep_max = 2});
    ASSERT_TRUE(saved.ok()) << saved.status();
  }
  Collect(*toy.trainer, trace);
  ExpectEqual(RunWithoutStopping(scenario, 8), trace);
}

}  // namespace
}  // namespace strata
