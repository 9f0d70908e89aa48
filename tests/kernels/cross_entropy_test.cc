#include <cmath>

#include "op_test.h"

namespace strata {
namespace {

class CrossEntropyTest : public OpTest {
 protected:
  static double Loss(const std::vector<double>& logits, size_t row, size_t vocab,
                     int32_t target) {
    double sum = 0;
    for (size_t i = 0; i < vocab; ++i) sum += std::exp(logits[row * vocab + i]);
    return std::log(sum) - logits[row * vocab + static_cast<size_t>(target)];
  }
};

TEST_F(CrossEntropyTest, EqualsTheDefinitionAndFiniteDifferences) {
  constexpr float kScale = 0.25f;
  for (const DType dtype : kBothTypes) {
    for (const int64_t vocab : kAwkwardSizes) {
      constexpr int64_t kRows = 3;
      const TestTensor logits = TestTensor::Random(DType::kF32, kRows * vocab, 1, 0, 6);
      const int32_t targets[] = {0, kIgnoredLabel, static_cast<int32_t>(vocab) - 1};
      const TestTensor losses(DType::kF32, kRows);
      const TestTensor gradient(dtype, kRows * vocab);
      RunOp(CrossEntropy{.losses = losses.floats(),
                         .gradient = gradient.data(),
                         .logits = logits.floats(),
                         .targets = targets,
                         .rows = kRows,
                         .vocab = vocab,
                         .scale = kScale,
                         .dtype = dtype});
      std::vector<double> values = logits.Values();
      std::vector<double> expected_losses(kRows, 0.0);
      std::vector<double> expected_gradient(values.size(), 0.0);
      for (size_t row = 0; row < kRows; ++row) {
        if (targets[row] == kIgnoredLabel) continue;
        const auto size = static_cast<size_t>(vocab);
        const auto loss = [&] { return Loss(values, row, size, targets[row]); };
        expected_losses[row] = loss();
        for (size_t i = row * size; i < (row + 1) * size; ++i) {
          expected_gradient[i] = kScale * Derivative(loss, values, i);
        }
      }
      ExpectNear(losses, expected_losses, 1e-6);
      ExpectNear(gradient, expected_gradient, 1e-6);
      for (int64_t i = vocab; i < 2 * vocab; ++i) EXPECT_EQ(gradient[i], 0.0);
    }
  }
}

TEST_F(CrossEntropyTest, LargeLogitsDoNotOverflowAndTheGradientIsOptional) {
  TestTensor logits(DType::kF32, 3);
  logits.Set(0, 1000);
  logits.Set(1, 990);
  logits.Set(2, -1000);
  const int32_t target = 1;
  const TestTensor losses(DType::kF32, 1);
  RunOp(CrossEntropy{.losses = losses.floats(),
                     .gradient = nullptr,
                     .logits = logits.floats(),
                     .targets = &target,
                     .rows = 1,
                     .vocab = 3,
                     .scale = 1,
                     .dtype = DType::kF32});
  EXPECT_NEAR(losses[0], 10 + std::log1p(std::exp(-10.0)), 1e-6);
}

TEST_F(CrossEntropyTest, NotANumberInOneLogitShowsInTheLoss) {
  TestTensor logits = TestTensor::Zeros(DType::kF32, 40);
  logits.Set(7, std::nan(""));
  const int32_t target = 1;
  const TestTensor losses = TestTensor::Zeros(DType::kF32, 1);
  RunOp(CrossEntropy{.losses = losses.floats(),
                     .gradient = nullptr,
                     .logits = logits.floats(),
                     .targets = &target,
                     .rows = 1,
                     .vocab = 40,
                     .scale = 1,
                     .dtype = DType::kF32});
  EXPECT_TRUE(std::isnan(losses[0]));
}

}  // namespace
}  // namespace strata
