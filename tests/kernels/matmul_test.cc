#include <vector>

#include "op_test.h"

namespace strata {
namespace {

struct Case {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  DType dtype = DType::kF32, c_dtype = DType::kF32;
  int64_t a_gap = 0, c_gap = 0;  // elements between rows

  int64_t a_rows() const { return transpose_a ? k : m; }
  int64_t a_stride() const { return (transpose_a ? m : k) + a_gap; }
  int64_t c_stride() const { return n + c_gap; }
};

class MatmulTest : public OpTest {
 protected:
  TestTensor workspace_{DType::kF32, kernels_->matmul_workspace_bytes() / 4};

  void Multiply(Kernels& kernels, const Case& c, const TestTensor& a,
                const TestTensor& b, const TestTensor& result) {
    ASSERT_EQ(kernels.Run(stream_, Matmul{.c = result.data(),
                                          .a = a.data(),
                                          .b = b.data(),
                                          .m = c.m,
                                          .n = c.n,
                                          .k = c.k,
                                          .a_stride = c.a_gap == 0 ? 0 : c.a_stride(),
                                          .c_stride = c.c_gap == 0 ? 0 : c.c_stride(),
                                          .transpose_a = c.transpose_a,
                                          .transpose_b = c.transpose_b,
                                          .accumulate = c.accumulate,
                                          .dtype = c.dtype,
                                          .c_dtype = c.c_dtype,
                                          .workspace = workspace_.bytes()}),
              absl::OkStatus());
  }

  void Check(const Case& c) {
    const TestTensor a = TestTensor::Random(c.dtype, c.a_rows() * c.a_stride(), 1);
    const TestTensor b = TestTensor::Random(c.dtype, c.k * c.n, 2);
    const TestTensor old = TestTensor::Random(c.c_dtype, c.m * c.c_stride(), 3);
    const std::vector<double> a_values = a.Values(), b_values = b.Values();
    const auto at = [](const std::vector<double>& values, int64_t i) {
      return values[static_cast<size_t>(i)];
    };
    std::vector<double> expected = old.Values();
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = c.accumulate ? old[i * c.c_stride() + j] : 0;
        for (int64_t l = 0; l < c.k; ++l) {
          sum += at(a_values,
                    c.transpose_a ? l * c.a_stride() + i : i * c.a_stride() + l) *
                 at(b_values, c.transpose_b ? j * c.k + l : l * c.n + j);
        }
        expected[static_cast<size_t>(i * c.c_stride() + j)] = sum;
      }
    }
    const TestTensor result = old.Copy();
    Multiply(*kernels_, c, a, b, result);
    ExpectNear(result, expected, 1e-5);
    for (int64_t i = 0; i < c.m; ++i) {  // what lies between the rows stays
      for (int64_t j = c.n; j < c.c_stride(); ++j) {
        ASSERT_EQ(result[i * c.c_stride() + j], old[i * c.c_stride() + j]);
      }
    }
  }

  /// Calls check(case) for every transposition, accumulation and type.
  template <typename Function>
  static void ForEachKind(Case c, const Function& check) {
    for (const DType dtype : kBothTypes) {
      for (const DType c_dtype : kBothTypes) {
        for (int bits = 0; bits < 8; ++bits) {
          c.dtype = dtype;
          c.c_dtype = c_dtype;
          c.transpose_a = (bits & 1) != 0;
          c.transpose_b = (bits & 2) != 0;
          c.accumulate = (bits & 4) != 0;
          SCOPED_TRACE(testing::Message()
                       << Name(dtype) << " to " << Name(c_dtype) << ", " << c.m << "x"
                       << c.k << "x" << c.n << " transpose_a " << c.transpose_a
                       << " transpose_b " << c.transpose_b << " accumulate "
                       << c.accumulate);
          check(c);
        }
      }
    }
  }
};

TEST_F(MatmulTest, EqualsTheDefinitionAtAwkwardSizes) {
  for (const int64_t m : {1, 31, 33, 200}) {
    for (const int64_t n : {1, 33, 64}) {
      for (const int64_t k : {1, 31, 33}) {
        ForEachKind({.m = m, .n = n, .k = k}, [&](const Case& c) { Check(c); });
      }
    }
  }
}

TEST_F(MatmulTest, EqualsTheDefinitionOverSeveralTiles) {
  ForEachKind({.m = 195, .n = 258, .k = 259}, [&](const Case& c) { Check(c); });
}

TEST_F(MatmulTest, RowsMayLieApart) {
  ForEachKind({.m = 33, .n = 31, .k = 40, .a_gap = 7, .c_gap = 9},
              [&](const Case& c) { Check(c); });
}

TEST_F(MatmulTest, OneRowAloneEqualsTheSameRowAmongOthers) {
  for (const int64_t n : {1, 33, 576}) {
    for (const int64_t k : {1, 33, 576, 1536}) {
      ForEachKind({.m = 133, .n = n, .k = k}, [&](Case c) {
        if (c.transpose_a) return;
        const TestTensor a = TestTensor::Random(c.dtype, c.m * k, 1);
        const TestTensor b = TestTensor::Random(c.dtype, k * n, 2);
        const TestTensor old = TestTensor::Random(c.c_dtype, c.m * n, 3);
        const TestTensor many = old.Copy();
        Multiply(*kernels_, c, a, b, many);
        for (const int64_t row : {0, 5, 47, 132}) {
          TestTensor one_a(c.dtype, k);
          TestTensor one(c.c_dtype, n);
          for (int64_t i = 0; i < k; ++i) one_a.Set(i, a[row * k + i]);
          for (int64_t i = 0; i < n; ++i) one.Set(i, old[row * n + i]);
          Case alone = c;
          alone.m = 1;
          Multiply(*kernels_, alone, one_a, b, one);
          for (int64_t i = 0; i < n; ++i) ASSERT_EQ(one[i], many[row * n + i]) << row;
        }
      });
    }
  }
}

TEST_F(MatmulTest, BitsRepeatAndDoNotDependOnThreads) {
  const auto one_thread = Create(1);
  ForEachKind({.m = 133, .n = 65, .k = 300}, [&](const Case& c) {
    if (c.transpose_a && c.dtype == DType::kBF16) return;  // as bf16_matmul.h says
    const TestTensor a = TestTensor::Random(c.dtype, c.m * c.k, 1);
    const TestTensor b = TestTensor::Random(c.dtype, c.k * c.n, 2);
    const TestTensor three = TestTensor::Random(c.c_dtype, c.m * c.n, 3);
    const TestTensor again = three.Copy();
    const TestTensor one = three.Copy();
    Multiply(*kernels_, c, a, b, three);
    Multiply(*kernels_, c, a, b, again);
    Multiply(*one_thread, c, a, b, one);
    EXPECT_TRUE(three == again);
    EXPECT_TRUE(three == one);
  });
}

TEST_F(MatmulTest, RefusesWhatHasNoMeaning) {
  float value = 0;
  Matmul op{.c = &value,
            .a = &value,
            .b = &value,
            .m = 1,
            .n = 1,
            .k = 0,
            .dtype = DType::kF32,
            .c_dtype = DType::kF32,
            .workspace = workspace_.bytes()};
  EXPECT_EQ(kernels_->Run(stream_, op).code(), absl::StatusCode::kInvalidArgument);
  op.k = 2;
  op.a_stride = 1;
  EXPECT_EQ(kernels_->Run(stream_, op).code(), absl::StatusCode::kInvalidArgument);
  op.k = 1;
  op.dtype = DType::kF16;
  EXPECT_EQ(kernels_->Run(stream_, op).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata
