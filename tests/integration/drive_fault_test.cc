/// Training on a drive that errs: a fault that passes changes no number, and one that
/// stays ends the trainer with what and where. Nothing is computed from wrong bytes,
/// nothing hangs, and nothing is saved after it.

#include <absl/strings/match.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "model/checkpoint_folder.h"
#include "tests/support/checkpoints.h"
#include "tests/support/faulty_queue.h"
#include "tests/support/temp_directory.h"
#include "tests/support/toy_run.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

constexpr int kSteps = 6;
using Kind = Fault::Kind;

class DriveFaultTest : public testing::Test {
 protected:
  ToyTrainer Make(uint32_t seed, const std::vector<Fault>& faults) {
    return MakeToyTrainer(
        scenario_, seed,
        [this,
         faults](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
          NvmeStoreOptions options;
          options.directories = {{.path = directory_ / "swap"}};
          options.capacity_bytes = needs.capacity_bytes;
          options.extent_count_max = needs.extent_count;
          options.requests_in_flight_max = needs.requests_in_flight;
          options.io_backend = IoBackend::kThreads;
          options.decorate_queue = [faults](std::unique_ptr<IoQueue> inner) {
            return std::make_unique<FaultyQueue>(std::move(inner), faults);
          };
          return NvmeStore::Create(std::move(options));
        });
  }

  /// Seeds of plans that read much from the drive in each step.
  std::vector<uint32_t> BusySeeds(size_t count) {
    std::vector<uint32_t> seeds;
    for (uint32_t seed = 1; seeds.size() < count; ++seed) {
      const ToyTrainer toy = MakeToyTrainer(scenario_, seed);
      int reads = 0;
      for (const Plan& plan : toy.trainer->plan().set.plans) {
        if (plan.key.kind != PlanKind::kTrain) continue;
        for (const Op& op : plan.ops) reads += op.code == OpCode::kRead;
      }
      if (reads > 40) seeds.push_back(seed);
    }
    return seeds;
  }

  /// Numbers of the steps until the first error, which `error` receives.
  std::vector<double> Train(Trainer& trainer, absl::Status* error) {
    std::vector<double> numbers;
    *error = trainer.LoadWeights(ToyWeights());
    for (int step = 0; error->ok() && step < kSteps; ++step) {
      const std::vector<Batch> batches = BatchesOf(trainer.model(), scenario_, step);
      std::vector<MicroBatch> borrowed;
      for (const Batch& batch : batches) borrowed.push_back(Borrow(batch));
      const auto result = trainer.Step(borrowed, LearningRateOf(step));
      *error = result.status();
      if (!result.ok()) break;
      numbers.push_back(result->loss);
    }
    if (error->ok()) *error = trainer.Settle();
    return numbers;
  }

  const Scenario scenario_{{.dtype = DType::kBF16}, {.weight_decay = 0.1}};
  const TempDirectory directory_;
};

TEST_F(DriveFaultTest, WhatPassesChangesNothingAndWhatStaysEndsTheRunByName) {
  absl::Status sound;
  std::vector<double> expected;
  {
    const ToyTrainer toy = MakeToyTrainer(scenario_, 1);
    expected = Train(*toy.trainer, &sound);
    ASSERT_TRUE(sound.ok()) << sound;
  }
  std::mt19937 random(3);
  int failed = 0, passed = 0;
  for (const uint32_t seed : BusySeeds(2)) {
    for (const auto& [kind, value] :
         {std::pair(Kind::kErrno, int64_t{EIO}), std::pair(Kind::kFlip, int64_t{9}),
          std::pair(Kind::kShort, int64_t{512}), std::pair(Kind::kShort, int64_t{0}),
          std::pair(Kind::kLostWrite, int64_t{0})}) {
      for (const IoOp op : {IoOp::kRead, IoOp::kWrite}) {
        for (const int length : {1, 2000}) {
          SCOPED_TRACE(testing::Message()
                       << "plan " << seed << ", fault " << static_cast<int>(kind)
                       << " of " << (op == IoOp::kRead ? "reads" : "writes") << ", "
                       << length << " in a row");
          // Some hit the loading of the weights, most a step.
          const int first = static_cast<int>(random() % 150);
          std::vector<Fault> faults;
          for (int i = 0; i < length; ++i) {
            faults.push_back({op, first + i, kind, value});
          }
          const ToyTrainer toy = Make(seed, faults);
          absl::Status error;
          const std::vector<double> numbers = Train(*toy.trainer, &error);
          ASSERT_LE(numbers.size(), expected.size());
          for (size_t i = 0; i < numbers.size(); ++i) {
            EXPECT_EQ(numbers[i], expected[i]) << "step " << i;
          }
          if (error.ok()) {
            EXPECT_EQ(numbers.size(), expected.size());
            ++passed;
            continue;
          }
          ++failed;
          EXPECT_TRUE(absl::StrContains(error.message(), directory_ / "swap")) << error;
          // It stays dead, and saves nothing.
          EXPECT_FALSE(toy.trainer->Settle().ok());
          const auto folder = CheckpointFolder::Open(directory_ / "out");
          ASSERT_TRUE(folder.ok());
          EXPECT_FALSE((*folder)->Save(*toy.trainer, {.run = {.step = 1}}).ok());
          EXPECT_EQ(ListTree(directory_ / "out"), std::vector<std::string>());
        }
      }
    }
  }
  EXPECT_GT(failed, 4);
  EXPECT_GT(passed, 4);
}

}  // namespace
}  // namespace strata
