/// Matmul by cuBLASLt against the CPU.

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>

#include "tests/kernels/two_sides.h"

namespace strata {
namespace {

struct MatmulCase {
  int64_t m, n, k;
  bool transpose_a, transpose_b, accumulate;
  DType dtype, c_dtype;
  int64_t a_extra = 0, c_extra = 0;  // columns between rows
};

std::ostream& operator<<(std::ostream& out, const MatmulCase& c) {
  return out << "m=" << c.m << " n=" << c.n << " k=" << c.k
             << (c.transpose_a ? " a^T" : "") << (c.transpose_b ? " b^T" : "")
             << (c.accumulate ? " +=" : "") << " " << Name(c.dtype) << " to "
             << Name(c.c_dtype) << " gaps " << c.a_extra << " " << c.c_extra;
}

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;

class CudaMatmulTest : public TwoSides,
                       public testing::WithParamInterface<MatmulCase> {};

TEST_P(CudaMatmulTest, Agrees) {
  const MatmulCase& c = GetParam();
  const int64_t a_rows = c.transpose_a ? c.k : c.m;
  const int64_t a_stride = (c.transpose_a ? c.m : c.k) + c.a_extra;
  const int64_t c_stride = c.n + c.c_extra;
  Tensor& a = Normal(a_rows * a_stride, c.dtype);
  Tensor& b = Normal(c.k * c.n, c.dtype);
  Tensor& result = Normal(c.m * c_stride, c.c_dtype);
  Tensor& workspace =
      Bytes(std::max(cpu().matmul_workspace_bytes(), cuda().matmul_workspace_bytes()));
  Run([&](Side side) {
    return Matmul{.c = result.On(side, c.c_extra),
                  .a = a.On(side, c.a_extra),
                  .b = b.On(side),
                  .m = c.m,
                  .n = c.n,
                  .k = c.k,
                  .a_stride = a_stride,
                  .c_stride = c_stride,
                  .transpose_a = c.transpose_a,
                  .transpose_b = c.transpose_b,
                  .accumulate = c.accumulate,
                  .dtype = c.dtype,
                  .c_dtype = c.c_dtype,
                  .workspace = workspace.On(side)};
  });
  // A rounding to BF16 is 1.7e-3 on average. Where cuBLASLt adds to BF16 it may round
  // the product before and the sum after: three roundings in all, with the CPU's one.
  const double rounded = c.accumulate ? 3.5e-3 : 2e-3;
  ExpectClose(result, c.c_dtype == kF32 ? Tolerance{1e-5, 1e-4, 1e-5}
                                        : Tolerance{0x1p-7, 1e-3, rounded});
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaMatmulTest,
    testing::Values(
        MatmulCase{1, 1, 1, false, false, false, kF32, kF32},
        MatmulCase{33, 72, 65, false, true, false, kF32, kF32},
        MatmulCase{33, 72, 65, true, false, true, kF32, kF32},
        MatmulCase{130, 192, 576, false, false, false, kF32, kF32, 64, 8},
        MatmulCase{1, 576, 576, false, true, false, kBF16, kBF16},
        MatmulCase{257, 576, 1536, false, true, false, kBF16, kBF16},
        MatmulCase{257, 1536, 576, false, false, false, kBF16, kBF16},
        MatmulCase{257, 192, 576, false, true, false, kBF16, kBF16, 0, 1000},
        MatmulCase{257, 192, 576, false, false, true, kBF16, kBF16, 960, 960},
        MatmulCase{576, 1536, 300, true, false, true, kBF16, kF32},
        MatmulCase{576, 192, 2048, true, false, true, kBF16, kF32, 192, 0},
        MatmulCase{100, 4099, 576, false, true, false, kBF16, kF32},
        MatmulCase{37, 50, 21, true, true, false, kBF16, kF32},
        MatmulCase{37, 50, 21, false, false, true, kBF16, kBF16, 3, 5}));

class CudaMatmulRowsTest : public TwoSides {};

TEST_F(CudaMatmulRowsTest, ARowDoesNotDependOnTheNumberOfRows) {
  const int64_t n = 1024, k = 1024, rows = 3000;
  for (const DType dtype : {kF32, kBF16}) {
    NextCase();
    Tensor& a = Normal(rows * k, dtype);
    Tensor& b = Normal(n * k, dtype);
    Tensor& all = Unwritten(rows * n, dtype);
    Tensor& few = Unwritten(rows * n, dtype);
    Tensor& workspace = Bytes(cuda().matmul_workspace_bytes());
    const auto product = [&](Tensor& c, int64_t first, int64_t count) {
      RunCuda([&](Side side) {
        return Matmul{.c = c.On(side),
                      .a = a.On(side, first * k),
                      .b = b.On(side),
                      .m = count,
                      .n = n,
                      .k = k,
                      .transpose_b = true,
                      .dtype = dtype,
                      .c_dtype = dtype,
                      .workspace = workspace.On(side)};
      });
    };
    product(all, 0, rows);
    const std::vector<std::byte> expected = all.cuda;
    for (const int64_t count : {1, 17, 128, 1000}) {
      const int64_t first = 1500;
      product(few, first, count);
      const int64_t row_bytes = n * SizeOf(dtype);
      EXPECT_EQ(std::memcmp(few.cuda.data(), expected.data() + first * row_bytes,
                            count * row_bytes),
                0)
          << count << " rows in " << Name(dtype);
    }
  }
}

}  // namespace
}  // namespace strata
