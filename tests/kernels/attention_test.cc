#include <cmath>

#include "op_test.h"

namespace strata {
namespace {

struct Shape {
  int64_t sequences, length, heads, kv_heads, head_dim;
  int64_t rows() const { return sequences * length; }
  int64_t width() const { return heads * head_dim; }
  /// Query, key and value lie side by side in a row, and a gap behind them.
  int64_t stride() const { return (heads + 2 * kv_heads) * head_dim + 3; }
  int64_t key_column() const { return width(); }
  int64_t value_column() const { return width() + kv_heads * head_dim; }
};

constexpr double kScale = 0.3;

/// The definition in double: scores of every earlier position of the same document.
std::vector<double> Attend(const Shape& s, const std::vector<double>& qkv,
                           const std::vector<int32_t>& documents) {
  std::vector<double> output(static_cast<size_t>(s.rows() * s.width()), 0.0);
  std::vector<double> weights(static_cast<size_t>(s.length));
  const auto at = [&](int64_t row, int64_t column) {
    return qkv[static_cast<size_t>(row * s.stride() + column)];
  };
  for (int64_t row = 0; row < s.rows(); ++row) {
    const int64_t first = row / s.length * s.length;
    for (int64_t head = 0; head < s.heads; ++head) {
      const int64_t kv = head / (s.heads / s.kv_heads) * s.head_dim;
      double sum = 0;
      for (int64_t other = first; other <= row; ++other) {
        double score = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) {
          score += at(row, head * s.head_dim + d) * at(other, s.key_column() + kv + d);
        }
        const bool sees = documents[static_cast<size_t>(other)] ==
                          documents[static_cast<size_t>(row)];
        const double weight = sees ? std::exp(kScale * score) : 0;
        weights[static_cast<size_t>(other - first)] = weight;
        sum += weight;
      }
      for (int64_t other = first; other <= row; ++other) {
        for (int64_t d = 0; d < s.head_dim; ++d) {
          output[static_cast<size_t>(row * s.width() + head * s.head_dim + d)] +=
              weights[static_cast<size_t>(other - first)] / sum *
              at(other, s.value_column() + kv + d);
        }
      }
    }
  }
  return output;
}

class AttentionTest : public OpTest {
 protected:
  struct Result {
    TestTensor output, log_sum_exp, gradients;
  };

  /// Forward and backward; `gradients` has the layout of `qkv`.
  Result Run(const Shape& s, const TestTensor& qkv,
             const std::vector<int32_t>& documents, const TestTensor& output_gradient,
             Kernels& kernels) {
    const int64_t unit = SizeOf(qkv.dtype());
    Result result{TestTensor(qkv.dtype(), s.rows() * s.width()),
                  TestTensor(DType::kF32, s.heads * s.rows()),
                  TestTensor::Zeros(qkv.dtype(), qkv.count())};
    EXPECT_EQ(
        kernels.Run(stream_,
                    AttentionForward{.output = result.output.data(),
                                     .log_sum_exp = result.log_sum_exp.floats(),
                                     .query = qkv.data(),
                                     .key = qkv.bytes() + s.key_column() * unit,
                                     .value = qkv.bytes() + s.value_column() * unit,
                                     .documents = documents.data(),
                                     .sequences = s.sequences,
                                     .length = s.length,
                                     .heads = s.heads,
                                     .kv_heads = s.kv_heads,
                                     .head_dim = s.head_dim,
                                     .row_stride = s.stride(),
                                     .scale = kScale,
                                     .dtype = qkv.dtype()}),
        absl::OkStatus());
    const TestTensor workspace(DType::kF32,
                               AttentionBackwardWorkspaceBytes(s.rows(), s.heads) / 4);
    EXPECT_EQ(
        kernels.Run(
            stream_,
            AttentionBackward{
                .query_gradient = result.gradients.data(),
                .key_gradient = result.gradients.bytes() + s.key_column() * unit,
                .value_gradient = result.gradients.bytes() + s.value_column() * unit,
                .output_gradient = output_gradient.data(),
                .output = result.output.data(),
                .log_sum_exp = result.log_sum_exp.floats(),
                .query = qkv.data(),
                .key = qkv.bytes() + s.key_column() * unit,
                .value = qkv.bytes() + s.value_column() * unit,
                .documents = documents.data(),
                .sequences = s.sequences,
                .length = s.length,
                .heads = s.heads,
                .kv_heads = s.kv_heads,
                .head_dim = s.head_dim,
                .row_stride = s.stride(),
                .scale = kScale,
                .dtype = qkv.dtype(),
                .workspace = workspace.bytes()}),
        absl::OkStatus());
    return result;
  }

  static std::vector<int32_t> OneDocument(const Shape& s) {
    return std::vector<int32_t>(static_cast<size_t>(s.rows()), 0);
  }

  /// Compares with the definition; gradients at every `step`-th element only.
  void Check(const Shape& s, const std::vector<int32_t>& documents, DType dtype,
             size_t step) {
    const TestTensor qkv = TestTensor::Random(dtype, s.rows() * s.stride(), 1);
    const TestTensor gradient = TestTensor::Random(dtype, s.rows() * s.width(), 2);
    const Result result = Run(s, qkv, documents, gradient, *kernels_);
    std::vector<double> values = qkv.Values();
    ExpectNear(result.output, Attend(s, values, documents), 2e-6);
    const auto loss = [&] {
      return Inner(Attend(s, values, documents), gradient.Values());
    };
    // BF16: delta is made from the rounded output.
    const double tolerance = dtype == DType::kF32 ? 2e-5 : 2e-2;
    for (size_t i = 0; i < values.size(); i += step) {
      const double expected = Derivative(loss, values, i);
      ASSERT_NEAR(result.gradients[static_cast<int64_t>(i)], expected,
                  tolerance * (1 + std::abs(expected)))
          << "element " << i;
    }
  }
};

TEST_F(AttentionTest, EqualsTheDefinitionAndFiniteDifferences) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t length : {1, 2, 9}) {
      for (const int64_t head_dim : {2, 8}) {
        const Shape s{.sequences = 2,
                      .length = length,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = head_dim};
        Check(s, OneDocument(s), dtype, 1);
      }
    }
  }
}

TEST_F(AttentionTest, EqualsTheDefinitionOverSeveralTiles) {
  // 96 queries and 128 keys make a tile.
  for (const int64_t length : {96, 97, 128, 129, 200}) {
    const Shape s{
        .sequences = 1, .length = length, .heads = 2, .kv_heads = 1, .head_dim = 6};
    Check(s, OneDocument(s), DType::kF32, 397);
  }
}

TEST_F(AttentionTest, DocumentsDoNotSeeEachOther) {
  const Shape s{
      .sequences = 2, .length = 150, .heads = 3, .kv_heads = 3, .head_dim = 4};
  std::vector<int32_t> documents = OneDocument(s);
  for (size_t row = 0; row < documents.size(); ++row) {
    // Borders at 5, 60 and 140 in one sequence, and 1 in the other: some tiles of keys
    // hold nothing for some queries.
    documents[row] = row < 150 ? (row >= 5) + (row >= 60) + (row >= 140) : row >= 151;
  }
  Check(s, documents, DType::kF32, 301);

  // A change in one document does not reach another, in either direction.
  const TestTensor qkv = TestTensor::Random(DType::kF32, s.rows() * s.stride(), 1);
  const TestTensor gradient = TestTensor::Random(DType::kF32, s.rows() * s.width(), 2);
  TestTensor changed = qkv.Copy();
  for (int64_t i = 60 * s.stride(); i < 140 * s.stride(); ++i) changed.Set(i, 9);
  const Result before = Run(s, qkv, documents, gradient, *kernels_);
  const Result after = Run(s, changed, documents, gradient, *kernels_);
  for (int64_t row = 0; row < s.rows(); ++row) {
    if (row >= 60 && row < 140) continue;
    for (int64_t i = 0; i < s.width(); ++i) {
      ASSERT_EQ(before.output[row * s.width() + i], after.output[row * s.width() + i]);
    }
    for (int64_t i = 0; i < s.stride(); ++i) {
      ASSERT_EQ(before.gradients[row * s.stride() + i],
                after.gradients[row * s.stride() + i]);
    }
  }
}

TEST_F(AttentionTest, BitsDoNotDependOnThreads) {
  const auto one_thread = Create(1);
  const Shape s{
      .sequences = 2, .length = 131, .heads = 4, .kv_heads = 2, .head_dim = 8};
  const TestTensor qkv = TestTensor::Random(DType::kBF16, s.rows() * s.stride(), 1);
  const TestTensor gradient = TestTensor::Random(DType::kBF16, s.rows() * s.width(), 2);
  const Result three = Run(s, qkv, OneDocument(s), gradient, *kernels_);
  const Result one = Run(s, qkv, OneDocument(s), gradient, *one_thread);
  EXPECT_TRUE(three.output == one.output);
  EXPECT_TRUE(three.log_sum_exp == one.log_sum_exp);
  EXPECT_TRUE(three.gradients == one.gradients);
}

}  // namespace
}  // namespace strata
