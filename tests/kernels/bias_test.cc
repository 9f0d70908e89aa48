#include "op_test.h"

namespace strata {
namespace {

class BiasTest : public OpTest {};

TEST_F(BiasTest, EveryRowGetsTheBiasAndNothingBesideIt) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t width : kAwkwardSizes) {
      const int64_t rows = 5, stride = width + 3;
      const TestTensor values = TestTensor::Random(dtype, rows * stride, 1);
      const TestTensor bias = TestTensor::Random(dtype, width, 2);
      std::vector<double> expected = values.Values();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < width; ++i) {
          expected[static_cast<size_t>(r * stride + i)] += bias[i];
        }
      }
      RunOp(AddBias{.values = values.data(),
                    .bias = bias.data(),
                    .rows = rows,
                    .width = width,
                    .row_stride = stride,
                    .dtype = dtype});
      ExpectNear(values, expected, 1e-6);
    }
  }
}

TEST_F(BiasTest, TheGradientIsTheSumOfTheRows) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t rows : {1, 3, 128, 131, 300}) {
      for (const int64_t width : {1, 33, 130}) {
        const int64_t stride = width + 7;
        const TestTensor gradient = TestTensor::Random(dtype, rows * stride, 3);
        const TestTensor accumulator = TestTensor::Random(DType::kF32, width, 4);
        const TestTensor workspace(DType::kF32,
                                   BiasGradientWorkspaceBytes(rows, width) / 4);
        std::vector<double> expected = accumulator.Values();
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < width; ++i) {
            expected[static_cast<size_t>(i)] += gradient[r * stride + i];
          }
        }
        RunOp(BiasGradient{.accumulator = accumulator.floats(),
                           .output_gradient = gradient.data(),
                           .rows = rows,
                           .width = width,
                           .row_stride = stride,
                           .dtype = dtype,
                           .workspace = workspace.bytes()});
        ExpectNear(accumulator, expected, 1e-5);
      }
    }
  }
}

TEST_F(BiasTest, TheGradientDoesNotDependOnThreads) {
  const int64_t rows = 513, width = 40;
  const TestTensor gradient = TestTensor::Random(DType::kF32, rows * width, 5);
  const TestTensor workspace(DType::kF32, BiasGradientWorkspaceBytes(rows, width) / 4);
  std::vector<std::vector<double>> sums;
  for (const int threads : {1, 2, 3}) {
    const TestTensor accumulator = TestTensor::Zeros(DType::kF32, width);
    ASSERT_TRUE(Create(threads)
                    ->Run(stream_, BiasGradient{.accumulator = accumulator.floats(),
                                                .output_gradient = gradient.data(),
                                                .rows = rows,
                                                .width = width,
                                                .row_stride = width,
                                                .dtype = DType::kF32,
                                                .workspace = workspace.bytes()})
                    .ok());
    sums.push_back(accumulator.Values());
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

}  // namespace
}  // namespace strata
