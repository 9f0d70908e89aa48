// Embedding, rotary embedding, SwiGLU, Add, Fill, SumInOrder and ReduceGradient.
#include <cmath>

#include "op_test.h"

namespace strata {
namespace {

class ElementwiseTest : public OpTest {};

TEST_F(ElementwiseTest, EmbeddingCopiesRows) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t width : kAwkwardSizes) {
      const TestTensor weight = TestTensor::Random(dtype, 5 * width, 1);
      const TestTensor output(dtype, 4 * width);
      const int32_t tokens[] = {4, 0, 3, 4};
      RunOp(EmbeddingForward{.output = output.data(),
                             .weight = weight.data(),
                             .tokens = tokens,
                             .rows = 4,
                             .width = width,
                             .vocab = 5,
                             .dtype = dtype});
      for (int64_t i = 0; i < output.count(); ++i) {
        ASSERT_EQ(output[i], weight[tokens[i / width] * width + i % width]);
      }
    }
  }
}

TEST_F(ElementwiseTest, EmbeddingGradientAddsEveryUseOfATokenInRowOrder) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t width : kAwkwardSizes) {
      const int32_t tokens[] = {2, 0, 2, 2, 1};
      const TestTensor gradient = TestTensor::Random(dtype, 5 * width, 1);
      const TestTensor accumulator = TestTensor::Random(DType::kF32, 4 * width, 2);
      std::vector<float> expected(accumulator.floats(),
                                  accumulator.floats() + 4 * width);
      for (int64_t i = 0; i < gradient.count(); ++i) {
        expected[static_cast<size_t>(tokens[i / width] * width + i % width)] +=
            static_cast<float>(gradient[i]);
      }
      RunOp(EmbeddingBackward{.accumulator = accumulator.floats(),
                              .output_gradient = gradient.data(),
                              .tokens = tokens,
                              .rows = 5,
                              .width = width,
                              .vocab = 4,
                              .dtype = dtype});
      for (int64_t i = 0; i < 4 * width; ++i) {
        ASSERT_EQ(accumulator.floats()[i], expected[static_cast<size_t>(i)]);
      }
    }
  }
}

TEST_F(ElementwiseTest, RopeTurnsPairsByTheAngleOfTheirPositionAndBack) {
  constexpr int64_t kHeads = 3, kPositions = 6, kRows = 4;
  const int32_t positions[] = {0, 5, 1, 5};
  for (const DType dtype : kBothTypes) {
    for (const int64_t pairs : {1, 4, 33}) {
      const int64_t width = kHeads * 2 * pairs;
      const int64_t stride = width + 3;
      TestTensor cosines(DType::kF32, kPositions * pairs);
      TestTensor sines(DType::kF32, kPositions * pairs);
      for (int64_t i = 0; i < cosines.count(); ++i) {
        cosines.Set(i, std::cos(0.1 * static_cast<double>(i)));
        sines.Set(i, std::sin(0.1 * static_cast<double>(i)));
      }
      const TestTensor values = TestTensor::Random(dtype, kRows * stride, 1);
      const std::vector<double> before = values.Values();
      std::vector<double> expected = before;
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t pair = 0; pair < kHeads * pairs; ++pair) {
          const int64_t j = pair % pairs;
          const auto first =
              static_cast<size_t>(row * stride + pair / pairs * 2 * pairs + j);
          const auto second = first + static_cast<size_t>(pairs);
          const double angle = 0.1 * static_cast<double>(positions[row] * pairs + j);
          expected[first] =
              before[first] * std::cos(angle) - before[second] * std::sin(angle);
          expected[second] =
              before[second] * std::cos(angle) + before[first] * std::sin(angle);
        }
      }
      Rope op{.values = values.data(),
              .cosines = cosines.floats(),
              .sines = sines.floats(),
              .positions = positions,
              .rows = kRows,
              .heads = kHeads,
              .head_dim = 2 * pairs,
              .row_stride = stride,
              .dtype = dtype};
      RunOp(op);
      ExpectNear(values, expected, 1e-6);
      op.inverse = true;
      RunOp(op);
      ExpectNear(values, before, dtype == DType::kF32 ? 1e-6 : 0.02);
    }
  }
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

TEST_F(ElementwiseTest, SwiGluEqualsItsDefinitionAndFiniteDifferences) {
  constexpr int64_t kRows = 3;
  for (const DType dtype : kBothTypes) {
    for (const int64_t width : kAwkwardSizes) {
      // Gate and up are column ranges of one activation.
      const int64_t stride = 2 * width + 5;
      const TestTensor both = TestTensor::Random(dtype, kRows * stride, 1, 0, 8);
      const TestTensor output(dtype, kRows * width);
      std::byte* const up = both.bytes() + width * SizeOf(dtype);
      RunOp(SwiGluForward{.output = output.data(),
                          .gate = both.data(),
                          .up = up,
                          .rows = kRows,
                          .width = width,
                          .row_stride = stride,
                          .dtype = dtype});
      const TestTensor gradient = TestTensor::Random(dtype, kRows * width, 2);
      const TestTensor gradients = both.Copy();
      RunOp(SwiGluBackward{.gate_gradient = gradients.data(),
                           .up_gradient = gradients.bytes() + width * SizeOf(dtype),
                           .output_gradient = gradient.data(),
                           .gate = both.data(),
                           .up = up,
                           .rows = kRows,
                           .width = width,
                           .row_stride = stride,
                           .dtype = dtype});
      std::vector<double> expected(static_cast<size_t>(kRows * width));
      std::vector<double> expected_gradients = both.Values();
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t i = 0; i < width; ++i) {
          const auto g = static_cast<size_t>(row * stride + i);
          const double x = both[row * stride + i];
          const double u = both[row * stride + width + i];
          const double dy = gradient[row * width + i];
          expected[static_cast<size_t>(row * width + i)] = Silu(x) * u;
          expected_gradients[g] = dy * u * (Silu(x + 1e-5) - Silu(x - 1e-5)) / 2e-5;
          expected_gradients[g + static_cast<size_t>(width)] = dy * Silu(x);
        }
      }
      ExpectNear(output, expected, 1e-6);
      ExpectNear(gradients, expected_gradients, 1e-6);
    }
  }
}

TEST_F(ElementwiseTest, AddMayWriteOverItsInput) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t count : {1, 31, 33, 1025, 40000}) {
      const TestTensor a = TestTensor::Random(dtype, count, 1);
      const TestTensor b = TestTensor::Random(dtype, count, 2);
      std::vector<double> expected = a.Values();
      for (int64_t i = 0; i < count; ++i) expected[static_cast<size_t>(i)] += b[i];
      RunOp(Add{.output = b.data(),
                .a = a.data(),
                .b = b.data(),
                .count = count,
                .dtype = dtype});
      ExpectNear(b, expected, 1e-6);
    }
  }
}

TEST_F(ElementwiseTest, FillClearsAndNothingElse) {
  for (const int64_t count : {1, 33, 600'000}) {
    const TestTensor target(DType::kF32, count);
    RunOp(Fill{.target = target.data(), .size_bytes = count * 4});
    EXPECT_EQ(target.Values(), std::vector<double>(static_cast<size_t>(count), 0.0));
  }
}

TEST_F(ElementwiseTest, SumInOrderIsADoubleSumFromTheFirstToTheLast) {
  const TestTensor values = TestTensor::Random(DType::kF32, 1001, 1, 1e6, 1e6);
  double expected = 0;
  for (int64_t i = 0; i < 1001; ++i) expected += values[i];
  double sum = -1;
  RunOp(SumInOrder{.sum = &sum, .values = values.floats(), .count = 1001});
  EXPECT_EQ(sum, expected);
}

TEST_F(ElementwiseTest, ReduceGradientRoundsTheSumAndSquaresWhatItStored) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t count : {int64_t{1}, int64_t{33}, kTileElements,
                                kTileElements + 1, 3 * kTileElements - 7}) {
      const TestTensor a = TestTensor::Random(DType::kF32, count, 1);
      const TestTensor b = TestTensor::Random(DType::kF32, count, 2);
      for (const bool two_uses : {false, true}) {
        const TestTensor gradient(dtype, count);
        const TestTensor sums(DType::kF32, CeilDiv(count, kTileElements));
        RunOp(ReduceGradient{.gradient = gradient.data(),
                             .tile_sums = sums.floats(),
                             .a = a.floats(),
                             .b = two_uses ? b.floats() : nullptr,
                             .count = count,
                             .dtype = dtype});
        std::vector<double> squares(static_cast<size_t>(sums.count()), 0.0);
        for (int64_t i = 0; i < count; ++i) {
          const float sum = two_uses ? a.floats()[i] + b.floats()[i] : a.floats()[i];
          const double rounded =
              dtype == DType::kF32 ? sum : FloatFromBf16(Bf16FromFloat(sum));
          ASSERT_EQ(gradient[i], rounded);
          squares[static_cast<size_t>(i / kTileElements)] += rounded * rounded;
        }
        ExpectNear(sums, squares, 1e-5);
      }
    }
  }
}

TEST_F(ElementwiseTest, HalfPrecisionIsRefused) {
  const Add op{
      .output = nullptr, .a = nullptr, .b = nullptr, .count = 0, .dtype = DType::kF16};
  const absl::Status status = kernels_->Run(stream_, op);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("F16"), absl::string_view::npos);
}

}  // namespace
}  // namespace strata
