/// Every operation but attention, matmul, norms, biases and AdamW: CUDA against the
/// CPU.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/kernels/two_sides.h"

namespace strata {
namespace {

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16};

class CudaKernelsTest : public TwoSides {};

TEST_F(CudaKernelsTest, AddIsTheSameSum) {
  for (const DType dtype : kDTypes) {
    for (const int64_t count : {1, 7, 8, 2048, 2049, 100'000}) {
      NextCase();
      Tensor& a = Normal(count, dtype);
      Tensor& b = Normal(count, dtype);
      Tensor& output = Unwritten(count, dtype);
      Run([&](Side side) {
        return Add{.output = output.On(side),
                   .a = a.On(side),
                   .b = b.On(side),
                   .count = count,
                   .dtype = dtype};
      });
      ExpectEqualBits(output);
    }
  }
}

TEST_F(CudaKernelsTest, AddMayWriteOverAnOperand) {
  Tensor& a = Normal(1000, DType::kBF16);
  Tensor& b = Normal(1000, DType::kBF16);
  Run([&](Side side) {
    return Add{.output = b.On(side),
               .a = a.On(side),
               .b = b.On(side),
               .count = 1000,
               .dtype = DType::kBF16};
  });
  ExpectEqualBits(b);
}

TEST_F(CudaKernelsTest, EmbeddingCopiesTheRowsOfItsTokens) {
  for (const DType dtype : kDTypes) {
    for (const int64_t width : {1, 10, 64, 2056}) {
      NextCase();
      Tensor& weight = Normal(37 * width, dtype);
      Tensor& tokens = RandomIntegers(53, 37);
      Tensor& output = Unwritten(53 * width, dtype);
      Run([&](Side side) {
        return EmbeddingForward{.output = output.On(side),
                                .weight = weight.On(side),
                                .tokens = tokens.On(side),
                                .rows = 53,
                                .width = width,
                                .vocab = 37,
                                .dtype = dtype};
      });
      ExpectEqualBits(output);
    }
  }
}

TEST_F(CudaKernelsTest, EmbeddingGradientAddsRepeatedTokensInRowOrder) {
  for (const DType dtype : kDTypes) {
    // Few different tokens, many, and one only; rows within a block's scan and beyond.
    for (const int32_t vocab : {1, 5, 900}) {
      for (const int64_t rows : {1, 255, 700}) {
        const int64_t width = vocab == 5 ? 2050 : 72;
        NextCase();
        Tensor& accumulator = Normal(vocab * width, DType::kF32);
        Tensor& gradient = Normal(rows * width, dtype);
        Tensor& tokens = RandomIntegers(rows, vocab);
        Run([&](Side side) {
          return EmbeddingBackward{.accumulator = accumulator.On(side),
                                   .output_gradient = gradient.On(side),
                                   .tokens = tokens.On(side),
                                   .rows = rows,
                                   .width = width,
                                   .vocab = vocab,
                                   .dtype = dtype};
        });
        ExpectEqualBits(accumulator);
      }
    }
  }
}

TEST_F(CudaKernelsTest, RopeAgreesForwardsAndBackwards) {
  struct Case {
    int64_t heads, head_dim, extra;  // extra: columns of the row that are not heads
  };
  for (const DType dtype : kDTypes) {
    for (const Case& c : {Case{1, 2, 0}, {3, 64, 128}, {2, 80, 16}, {5, 6, 7}}) {
      for (const bool inverse : {false, true}) {
        NextCase();
        const int64_t rows = 33, table = 50;
        const int64_t row_stride = c.heads * c.head_dim + c.extra;
        Tensor& values = Normal(rows * row_stride, dtype);
        Tensor& cosines = Normal(table * c.head_dim / 2, DType::kF32);
        Tensor& sines = Normal(table * c.head_dim / 2, DType::kF32);
        Tensor& positions = RandomIntegers(rows, table);
        Run([&](Side side) {
          return Rope{.values = values.On(side),
                      .cosines = cosines.On(side),
                      .sines = sines.On(side),
                      .positions = positions.On(side),
                      .rows = rows,
                      .heads = c.heads,
                      .head_dim = c.head_dim,
                      .row_stride = row_stride,
                      .inverse = inverse,
                      .dtype = dtype};
        });
        ExpectClose(values, RoundingOf(dtype));
      }
    }
  }
}

TEST_F(CudaKernelsTest, SwiGluAndItsGradientAgreeWithStridedRows) {
  for (const DType dtype : kDTypes) {
    for (const int64_t width : {1, 24, 1538}) {
      NextCase();
      const int64_t rows = 17, row_stride = 2 * width;
      Tensor& inner = Normal(rows * row_stride, dtype, 3.0);
      Tensor& output = Unwritten(rows * width, dtype);
      Run([&](Side side) {
        return SwiGluForward{.output = output.On(side),
                             .gate = inner.On(side),
                             .up = inner.On(side, width),
                             .rows = rows,
                             .width = width,
                             .row_stride = row_stride,
                             .dtype = dtype};
      });
      ExpectClose(output, RoundingOf(dtype));

      Tensor& gradient = Normal(rows * width, dtype);
      Tensor& inner_gradient = Unwritten(rows * row_stride, dtype);
      Run([&](Side side) {
        return SwiGluBackward{.gate_gradient = inner_gradient.On(side),
                              .up_gradient = inner_gradient.On(side, width),
                              .output_gradient = gradient.On(side),
                              .gate = inner.On(side),
                              .up = inner.On(side, width),
                              .rows = rows,
                              .width = width,
                              .row_stride = row_stride,
                              .dtype = dtype};
      });
      ExpectClose(inner_gradient, RoundingOf(dtype));
    }
  }
}

TEST_F(CudaKernelsTest, SwiGluOfLargeGatesIsFinite) {
  const std::vector<float> gates = {-1e30f, -200.0f, -88.0f, 0.0f,
                                    88.0f,  200.0f,  1e30f,  1};
  Tensor& gate = Unwritten(8, DType::kF32);
  for (int i = 0; i < 8; ++i) gate.Set(i, gates[i]);
  Tensor& up = Normal(8, DType::kF32);
  Tensor& output = Unwritten(8, DType::kF32);
  Run([&](Side side) {
    return SwiGluForward{.output = output.On(side),
                         .gate = gate.On(side),
                         .up = up.On(side),
                         .rows = 1,
                         .width = 8,
                         .row_stride = 8,
                         .dtype = DType::kF32};
  });
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(std::isfinite(output.CudaValue(i))) << i;
}

TEST_F(CudaKernelsTest, CrossEntropyAgreesAndSkipsIgnoredRows) {
  for (const DType dtype : kDTypes) {
    for (const int64_t vocab : {1, 67, 4096, 32'003}) {
      for (const bool with_gradient : {false, true}) {
        NextCase();
        const int64_t rows = 9;
        Tensor& logits = Normal(rows * vocab, DType::kF32, 8.0, 50.0);
        std::vector<int32_t> classes(rows, kIgnoredLabel);
        for (int64_t row = 0; row < rows; row += 2) {
          classes[row] = static_cast<int32_t>((row * 7919) % vocab);
        }
        Tensor& targets = Integers(classes);
        Tensor& losses = Unwritten(rows, DType::kF32);
        Tensor& gradient = Unwritten(rows * vocab, dtype);
        Run([&](Side side) {
          CrossEntropy op{.losses = losses.On(side),
                          .gradient = gradient.On(side),
                          .logits = logits.On(side),
                          .targets = targets.On(side),
                          .rows = rows,
                          .vocab = vocab,
                          .scale = 0.125f,
                          .dtype = dtype};
          if (!with_gradient) op.gradient = nullptr;
          return op;
        });
        ExpectClose(losses, RoundingOf(DType::kF32));
        ExpectClose(gradient, {RoundingOf(dtype).relative, 1e-4, 1e-3});
        EXPECT_EQ(losses.CudaValue(1), 0.0);
        EXPECT_EQ(std::isnan(gradient.CudaValue(0)), !with_gradient);
      }
    }
  }
}

TEST_F(CudaKernelsTest, SumInOrderIsTheSameDouble) {
  for (const int64_t count : {0, 1, 31, 2048, 2049, 65'537}) {
    NextCase();
    Tensor& values = Normal(count, DType::kF32, 1.0, 5.0);
    Tensor& sum = Bytes(8);
    Run([&](Side side) {
      return SumInOrder{.sum = sum.On(side), .values = values.On(side), .count = count};
    });
    ExpectEqualBits(sum);
  }
}

TEST_F(CudaKernelsTest, FillZeroesExactlyItsBytes) {
  Tensor& target = Unwritten(1000, DType::kBF16);
  Run([&](Side side) { return Fill{.target = target.On(side), .size_bytes = 1999}; });
  ExpectEqualBits(target);
  EXPECT_EQ(target.CudaValue(998), 0.0);
  EXPECT_EQ(target.cuda[1999], std::byte{0xFF});
}

TEST_F(CudaKernelsTest, ReduceGradientRoundsAlikeAndSumsTheSquaresOfEachTile) {
  for (const DType dtype : kDTypes) {
    for (const int64_t count : {int64_t{1}, kTileElements - 1, kTileElements,
                                3 * kTileElements + 8, 2 * kTileElements + 4001}) {
      for (const bool shared : {false, true}) {
        NextCase();
        Tensor& a = Normal(count, DType::kF32);
        Tensor& b = Normal(count, DType::kF32);
        Tensor& gradient = Unwritten(count, dtype);
        Tensor& tile_sums = Unwritten(CeilDiv(count, kTileElements), DType::kF32);
        Run([&](Side side) {
          ReduceGradient op{.gradient = gradient.On(side),
                            .tile_sums = tile_sums.On(side),
                            .a = a.On(side),
                            .b = b.On(side),
                            .count = count,
                            .dtype = dtype};
          if (!shared) op.b = nullptr;
          return op;
        });
        ExpectEqualBits(gradient);
        ExpectClose(tile_sums, {1e-5, 0.0, 1e-5});
      }
    }
  }
}

TEST_F(CudaKernelsTest, UnsupportedShapesAreRefusedByName) {
  const auto refused = [](const absl::Status& status, absl::string_view word) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_NE(status.message().find(word), absl::string_view::npos) << status;
  };
  AttentionForward attention{.sequences = 1,
                             .length = 8,
                             .heads = 3,
                             .kv_heads = 2,
                             .head_dim = 64,
                             .row_stride = 1024,
                             .scale = 0.1f,
                             .dtype = DType::kBF16};
  refused(Refusal(attention), "3 heads");
  attention.kv_heads = 3;
  attention.head_dim = 258;
  refused(Refusal(attention), "head_dim");
  attention.head_dim = 64;
  attention.row_stride = 191;
  refused(Refusal(attention), "row_stride");
  refused(
      Refusal(AddBias{.rows = 2, .width = 9, .row_stride = 8, .dtype = DType::kF32}),
      "row_stride");
  refused(Refusal(RmsNormForward{.rows = 6,
                                 .width = 8,
                                 .groups = {.rows = 3, .stride = 23},
                                 .dtype = DType::kF32}),
          "stride of groups");
  refused(Refusal(Add{.count = 0, .dtype = DType::kF32}), "count");
  refused(Refusal(Add{.count = 8, .dtype = DType::kF16}), "F16");
  refused(Refusal(Matmul{.m = 0, .n = 1, .k = 1, .dtype = DType::kF32}), "m is 0");
}

}  // namespace
}  // namespace strata
