/// Norms and biases: CUDA against the CPU.

#include <gtest/gtest.h>

#include "tests/kernels/two_sides.h"

namespace strata {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

class CudaNormTest : public TwoSides {};

TEST_F(CudaNormTest, RmsNormAgrees) {
  for (const DType dtype : kDTypes) {
    for (const int64_t width : {1, 7, 576, 2056, 4100}) {
      NextCase();
      const int64_t rows = 13;
      Tensor& input = Normal(rows * width, dtype, 3.0);
      Tensor& weight = Normal(width, dtype, 0.2, 1.0);
      Tensor& output = Unwritten(rows * width, dtype);
      Tensor& inverse_rms = Unwritten(rows, DType::kF32);
      Run([&](Side side) {
        return RmsNormForward{.output = output.On(side),
                              .inverse_rms = inverse_rms.On(side),
                              .input = input.On(side),
                              .weight = weight.On(side),
                              .rows = rows,
                              .width = width,
                              .epsilon = 1e-5f,
                              .dtype = dtype};
      });
      ExpectClose(output, RoundingOf(dtype));
      ExpectClose(inverse_rms, RoundingOf(DType::kF32));
    }
  }
}

struct NormCase {
  int64_t rows, width;
  DType dtype;
  bool residual, trainable;
};

TEST_F(CudaNormTest, RmsNormGradientAgrees) {
  for (const NormCase& c : {NormCase{1, 1, DType::kF32, false, true},
                            {13, 7, DType::kBF16, true, true},
                            {129, 576, DType::kBF16, true, true},
                            {300, 2056, DType::kF32, true, true},
                            {300, 70, DType::kF32, false, false},
                            {1000, 136, DType::kBF16, false, true}}) {
    NextCase();
    const int64_t count = c.rows * c.width;
    Tensor& result = Unwritten(count, c.dtype);
    Tensor& accumulator = Normal(c.width, DType::kF32);
    Tensor& gradient = Normal(count, c.dtype);
    Tensor& residual = Normal(count, c.dtype);
    Tensor& input = Normal(count, c.dtype);
    Tensor& weight = Normal(c.width, c.dtype, 0.2, 1.0);
    Tensor& inverse_rms = Normal(c.rows, DType::kF32, 0.1, 1.0);
    Tensor& workspace = Bytes(RmsNormBackwardWorkspaceBytes(c.rows, c.width));
    Run([&](Side side) {
      RmsNormBackward op{.input_gradient = result.On(side),
                         .weight_accumulator = accumulator.On(side),
                         .output_gradient = gradient.On(side),
                         .residual_gradient = residual.On(side),
                         .input = input.On(side),
                         .weight = weight.On(side),
                         .inverse_rms = inverse_rms.On(side),
                         .rows = c.rows,
                         .width = c.width,
                         .dtype = c.dtype,
                         .workspace = workspace.On(side)};
      if (!c.residual) op.residual_gradient = nullptr;
      if (!c.trainable) op.weight_accumulator = nullptr;
      return op;
    });
    ExpectClose(result, RoundingOf(c.dtype));
    ExpectClose(accumulator, {1e-5, 1e-4, 1e-5});
  }
}

TEST_F(CudaNormTest, RmsNormGradientMayWriteOverTheResidual) {
  const int64_t rows = 20, width = 256;
  Tensor& residual = Normal(rows * width, DType::kBF16);
  Tensor& gradient = Normal(rows * width, DType::kBF16);
  Tensor& input = Normal(rows * width, DType::kBF16);
  Tensor& weight = Normal(width, DType::kBF16, 0.2, 1.0);
  Tensor& inverse_rms = Normal(rows, DType::kF32, 0.1, 1.0);
  Tensor& workspace = Bytes(RmsNormBackwardWorkspaceBytes(rows, width));
  Run([&](Side side) {
    return RmsNormBackward{.input_gradient = residual.On(side),
                           .weight_accumulator = nullptr,
                           .output_gradient = gradient.On(side),
                           .residual_gradient = residual.On(side),
                           .input = input.On(side),
                           .weight = weight.On(side),
                           .inverse_rms = inverse_rms.On(side),
                           .rows = rows,
                           .width = width,
                           .dtype = DType::kBF16,
                           .workspace = workspace.On(side)};
  });
  ExpectClose(residual, RoundingOf(DType::kBF16));
}

TEST_F(CudaNormTest, NormsOfHeadsAgreeAndMayWriteOverTheGradient) {
  struct Case {
    int64_t tokens, heads, width, extra;  // extra: columns of a token beside the heads
  };
  for (const DType dtype : kDTypes) {
    for (const Case& c :
         {Case{1, 1, 2, 0}, {33, 4, 128, 256}, {70, 3, 10, 7}, {300, 2, 64, 64}}) {
      NextCase();
      const int64_t rows = c.tokens * c.heads;
      const RowGroups groups{.rows = c.heads, .stride = c.heads * c.width + c.extra};
      Tensor& input = Normal(c.tokens * groups.stride, dtype, 3.0);
      Tensor& output = Normal(c.tokens * groups.stride, dtype);
      Tensor& gradient = Normal(c.tokens * groups.stride, dtype);
      Tensor& weight = Normal(c.width, dtype, 0.2, 1.0);
      Tensor& accumulator = Normal(c.width, DType::kF32);
      Tensor& inverse_rms = Normal(rows, DType::kF32, 0.1, 1.0);
      Tensor& workspace = Bytes(RmsNormBackwardWorkspaceBytes(rows, c.width));
      Run([&](Side side) {
        return RmsNormBackward{.input_gradient = gradient.On(side),
                               .weight_accumulator = accumulator.On(side),
                               .output_gradient = gradient.On(side),
                               .residual_gradient = nullptr,
                               .input = input.On(side),
                               .weight = weight.On(side),
                               .inverse_rms = inverse_rms.On(side),
                               .rows = rows,
                               .width = c.width,
                               .groups = groups,
                               .dtype = dtype,
                               .workspace = workspace.On(side)};
      });
      ExpectClose(gradient, RoundingOf(dtype));
      ExpectClose(accumulator, {1e-5, 1e-4, 1e-5});
      Run([&](Side side) {
        return RmsNormForward{.output = output.On(side),
                              .inverse_rms = inverse_rms.On(side),
                              .input = input.On(side),
                              .weight = weight.On(side),
                              .rows = rows,
                              .width = c.width,
                              .groups = groups,
                              .epsilon = 1e-5f,
                              .dtype = dtype};
      });
      ExpectClose(output, RoundingOf(dtype));
      ExpectClose(inverse_rms, RoundingOf(DType::kF32));
    }
  }
}

TEST_F(CudaNormTest, BiasAndItsGradientAgreeWithStridedRows) {
  struct Case {
    int64_t rows, width, extra;
  };
  for (const DType dtype : kDTypes) {
    for (const Case& c :
         {Case{1, 1, 0}, {13, 7, 3}, {129, 576, 64}, {300, 2056, 8}, {1000, 136, 0}}) {
      NextCase();
      const int64_t stride = c.width + c.extra;
      Tensor& values = Normal(c.rows * stride, dtype);
      Tensor& bias = Normal(c.width, dtype);
      Run([&](Side side) {
        return AddBias{.values = values.On(side),
                       .bias = bias.On(side),
                       .rows = c.rows,
                       .width = c.width,
                       .row_stride = stride,
                       .dtype = dtype};
      });
      ExpectEqualBits(values);
      NextCase();
      Tensor& gradient = Normal(c.rows * stride, dtype);
      Tensor& accumulator = Normal(c.width, DType::kF32);
      Tensor& workspace = Bytes(BiasGradientWorkspaceBytes(c.rows, c.width));
      Run([&](Side side) {
        return BiasGradient{.accumulator = accumulator.On(side),
                            .output_gradient = gradient.On(side),
                            .rows = c.rows,
                            .width = c.width,
                            .row_stride = stride,
                            .dtype = dtype,
                            .workspace = workspace.On(side)};
      });
      ExpectClose(accumulator, {1e-5, 1e-4, 1e-5});
    }
  }
}

}  // namespace
}  // namespace strata
