/// The gradients of whole steps through tiers: the same bits as where everything
/// stays on the device, the same as the serial trainer's, and the slope of the loss.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "tests/support/exact_runs.h"
#include "tests/support/placement_matrix.h"
#include "tests/support/serial_trainer.h"

namespace strata {
namespace {

// With beta1 = 0 the first moment is the gradient as the update read it.
Scenario OneStep(const ToyOptions& toy) {
  return {.toy = toy, .optimizer = {.beta1 = 0}, .events = [](int) {
            return StepEvents{};
          }};
}

Tensors TieredGradients(Scenario scenario, const LevelRow& row) {
  scenario.optimizer.skip_nonfinite = row[kUpdate] != 2;  // else in the backward
  return RunTiered(MakeToyTrainer(scenario, OptionsOf(row, scenario)), scenario, 1)
      .moments1;
}

void ExpectSameBits(const Tensors& gradients, const Tensors& expected) {
  ASSERT_EQ(gradients.size(), expected.size());
  for (const auto& [name, values] : expected) {
    const auto& other = gradients.at(name);
    ASSERT_EQ(other.size(), values.size()) << name;
    EXPECT_EQ(std::memcmp(other.data(), values.data(), values.size() * 4), 0) << name;
    EXPECT_NE(std::count(values.begin(), values.end(), 0.0f),
              static_cast<int64_t>(values.size()))
        << name << " has no gradient at all";
  }
}

TEST(Gradients, OfEveryTensorAreThoseOfAResidentRun) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool tied : {false, true}) {
      const Scenario scenario = OneStep({.dtype = dtype, .tied = tied});
      LevelRow row(kFactorCount, 0);
      const Tensors resident = TieredGradients(scenario, row);
      ExpectSameBits(resident, RunSerial(scenario, 1).moments1);
      for (row[kPlacement] = 1; row[kPlacement] < 4; ++row[kPlacement]) {
        for (row[kUpdate] = 0; row[kUpdate] < 3; ++row[kUpdate]) {
          for (row[kGroups] = 0; row[kGroups] < 2; ++row[kGroups]) {
            SCOPED_TRACE(Describe(row) + (tied ? ", tied" : ""));
            ExpectSameBits(TieredGradients(scenario, row), resident);
          }
        }
      }
    }
  }
}

/// Mean loss of the step with `name` moved by `distance` along `direction`.
double LossAt(const Scenario& scenario, const std::string& name,
              const std::vector<float>& direction, double distance) {
  const ModelShape model = ToyModel(scenario.toy);
  SerialTrainer trainer(model, scenario.optimizer, 1);
  const auto moved = [&](const TensorSpec& tensor, int64_t first,
                         std::span<float> values) {
    const absl::Status status = ToyWeights()(tensor, first, values);
    for (size_t i = 0; tensor.name == name && i < values.size(); ++i) {
      values[i] +=
          static_cast<float>(distance * direction[static_cast<size_t>(first) + i]);
    }
    return status;
  };
  EXPECT_TRUE(trainer.LoadWeights(moved).ok());
  const std::vector<Batch> batches = BatchesOf(model, scenario, 0);
  std::vector<MicroBatch> borrowed;
  int64_t trained = 0;
  for (const Batch& batch : batches) {
    borrowed.push_back(Borrow(batch));
    trained += batch.size() -
               std::count(batch.targets.begin(), batch.targets.end(), kIgnoredLabel);
  }
  const auto sum = trainer.Evaluate(borrowed);
  EXPECT_TRUE(sum.ok()) << sum.status();
  return *sum / static_cast<double>(trained);
}

// Along its own gradient the loss rises by the gradient's norm. Fp32 losses of about 5
// have six digits, of which a difference of some percents leaves four.
TEST(Gradients, OfEveryTensorAreTheSlopeOfTheLoss) {
  for (const bool tied : {false, true}) {
    const Scenario scenario = OneStep({.tied = tied});
    for (const auto& [name, gradient] : RunSerial(scenario, 1).moments1) {
      const double norm = std::sqrt(
          std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
      std::vector<float> direction = gradient;
      for (float& value : direction) value = static_cast<float>(value / norm);
      const double distance = 0.02;
      const double slope = (LossAt(scenario, name, direction, distance) -
                            LossAt(scenario, name, direction, -distance)) /
                           (2 * distance);
      EXPECT_NEAR(slope, norm, 5e-3 * norm) << name;
    }
  }
}

}  // namespace
}  // namespace strata
