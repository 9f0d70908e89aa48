#include <cmath>

#include "op_test.h"

namespace strata {
namespace {

constexpr double kEpsilon = 1e-3;

/// The definition, row by row, in double.
std::vector<double> Norm(const std::vector<double>& x, const std::vector<double>& w) {
  const size_t width = w.size();
  std::vector<double> y(x.size());
  for (size_t row = 0; row < x.size(); row += width) {
    double squares = 0;
    for (size_t i = 0; i < width; ++i) squares += x[row + i] * x[row + i];
    const double rms = std::sqrt(squares / static_cast<double>(width) + kEpsilon);
    for (size_t i = 0; i < width; ++i) y[row + i] = x[row + i] / rms * w[i];
  }
  return y;
}

class RmsNormTest : public OpTest {
 protected:
  /// Sets inverse_rms_ from x_ and w_.
  void Forward(const TestTensor& y) {
    RunOp(RmsNormForward{.output = y.data(),
                         .inverse_rms = inverse_rms_.floats(),
                         .input = x_.data(),
                         .weight = w_.data(),
                         .rows = rows_,
                         .width = width_,
                         .epsilon = kEpsilon,
                         .dtype = x_.dtype()});
  }
  void Prepare(DType dtype, int64_t rows, int64_t width) {
    rows_ = rows;
    width_ = width;
    x_ = TestTensor::Random(dtype, rows * width, 1);
    w_ = TestTensor::Random(dtype, width, 2, 1.0, 0.5);
    inverse_rms_ = TestTensor(DType::kF32, rows);
  }

  int64_t rows_ = 0, width_ = 0;
  TestTensor x_{DType::kF32, 0}, w_{DType::kF32, 0}, inverse_rms_{DType::kF32, 0};
};

TEST_F(RmsNormTest, ForwardEqualsTheDefinition) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t width : kAwkwardSizes) {
      Prepare(dtype, 5, width);
      const TestTensor y(dtype, 5 * width);
      Forward(y);
      ExpectNear(y, Norm(x_.Values(), w_.Values()), 1e-6);
    }
  }
}

TEST_F(RmsNormTest, BackwardEqualsFiniteDifferences) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t rows : {1, 3, 131}) {  // 131: more rows than partial sums
      const int64_t width = rows == 131 ? 5 : 33;
      Prepare(dtype, rows, width);
      Forward(TestTensor(dtype, rows * width));
      const TestTensor gradient = TestTensor::Random(dtype, rows * width, 3);
      const TestTensor dx =
          TestTensor::Random(dtype, rows * width, 4);  // the residual's
      const TestTensor dw = TestTensor::Random(DType::kF32, width, 5);
      std::vector<double> x = x_.Values();
      std::vector<double> w = w_.Values();
      const auto loss = [&] { return Inner(Norm(x, w), gradient.Values()); };
      std::vector<double> expected_dx = dx.Values();
      std::vector<double> expected_dw = dw.Values();
      for (size_t i = 0; i < x.size(); ++i) expected_dx[i] += Derivative(loss, x, i);
      for (size_t i = 0; i < w.size(); ++i) expected_dw[i] += Derivative(loss, w, i);

      const TestTensor workspace(DType::kF32,
                                 RmsNormBackwardWorkspaceBytes(rows, width) / 4);
      RmsNormBackward op{.input_gradient = dx.data(),
                         .weight_accumulator = dw.floats(),
                         .output_gradient = gradient.data(),
                         .residual_gradient = dx.data(),
                         .input = x_.data(),
                         .weight = w_.data(),
                         .inverse_rms = inverse_rms_.floats(),
                         .rows = rows,
                         .width = width,
                         .dtype = dtype,
                         .workspace = workspace.bytes()};
      RunOp(op);
      ExpectNear(dx, expected_dx, 1e-5);
      ExpectNear(dw, expected_dw, 1e-5);

      // Without a residual, and with a frozen weight.
      const TestTensor alone(dtype, rows * width);
      op.input_gradient = alone.data();
      op.residual_gradient = nullptr;
      op.weight_accumulator = nullptr;
      const std::vector<double> before = dw.Values();
      RunOp(op);
      for (size_t i = 0; i < x.size(); ++i) expected_dx[i] = Derivative(loss, x, i);
      ExpectNear(alone, expected_dx, 1e-5);
      EXPECT_EQ(dw.Values(), before);
    }
  }
}

TEST_F(RmsNormTest, RowsInGroupsAreTheSameRows) {
  for (const DType dtype : kBothTypes) {
    const int64_t tokens = 47, heads = 3, width = 10, stride = heads * width + 6;
    Prepare(dtype, tokens * heads, width);
    const TestTensor y(dtype, rows_ * width_);
    Forward(y);
    const TestTensor gradient = TestTensor::Random(dtype, rows_ * width_, 3);
    const TestTensor dx(dtype, rows_ * width_);
    const TestTensor dw = TestTensor::Zeros(DType::kF32, width);
    const TestTensor grouped_dw = TestTensor::Zeros(DType::kF32, width);
    const TestTensor workspace(DType::kF32,
                               RmsNormBackwardWorkspaceBytes(rows_, width) / 4);
    RmsNormBackward op{.input_gradient = dx.data(),
                       .weight_accumulator = dw.floats(),
                       .output_gradient = gradient.data(),
                       .residual_gradient = nullptr,
                       .input = x_.data(),
                       .weight = w_.data(),
                       .inverse_rms = inverse_rms_.floats(),
                       .rows = rows_,
                       .width = width_,
                       .dtype = dtype,
                       .workspace = workspace.bytes()};
    RunOp(op);

    // The same rows, some elements apart after each three of them.
    const auto spread = [&](const TestTensor& dense) {
      TestTensor grouped = TestTensor::Random(dtype, tokens * stride, 9);
      for (int64_t i = 0; i < dense.count(); ++i) {
        grouped.Set(i / (heads * width) * stride + i % (heads * width), dense[i]);
      }
      return grouped;
    };
    const TestTensor x = spread(x_);
    const TestTensor grouped = spread(gradient);  // of the output, then of the input
    const TestTensor grouped_y = spread(x_);
    const TestTensor expected_y = spread(y), expected_dx = spread(dx);
    const RowGroups groups{.rows = heads, .stride = stride};
    RunOp(RmsNormForward{.output = grouped_y.data(),
                         .inverse_rms = inverse_rms_.floats(),
                         .input = x.data(),
                         .weight = w_.data(),
                         .rows = rows_,
                         .width = width_,
                         .groups = groups,
                         .epsilon = kEpsilon,
                         .dtype = dtype});
    op.input = x.data();
    op.output_gradient = op.input_gradient = grouped.data();
    op.weight_accumulator = grouped_dw.floats();
    op.groups = groups;
    RunOp(op);
    EXPECT_TRUE(grouped_y == expected_y);
    EXPECT_TRUE(grouped == expected_dx);
    EXPECT_TRUE(grouped_dw == dw);
  }
}

}  // namespace
}  // namespace strata
