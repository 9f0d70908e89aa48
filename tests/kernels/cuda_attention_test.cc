/// Attention on CUDA against the CPU: tensor-core and plain form, packed query, key and
/// value, documents in a row, repeated and one per position.

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

#include "tests/kernels/two_sides.h"

namespace strata {
namespace {

enum class Documents { kOne, kInARow, kInterleaved, kEachItsOwn };

struct AttentionCase {
  int64_t sequences, length, heads, kv_heads, head_dim;
  DType dtype;
  Documents documents = Documents::kOne;

  int64_t rows() const { return sequences * length; }
  int64_t columns() const { return (heads + 2 * kv_heads) * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
};

std::ostream& operator<<(std::ostream& out, const AttentionCase& c) {
  return out << c.sequences << " sequences of " << c.length << ", " << c.heads << "/"
             << c.kv_heads << " heads of " << c.head_dim << " " << Name(c.dtype)
             << ", documents " << static_cast<int>(c.documents);
}

std::vector<int32_t> DocumentsOf(const AttentionCase& c) {
  std::vector<int32_t> documents;
  for (int64_t row = 0; row < c.rows(); ++row) {
    const int64_t at = row % c.length;
    switch (c.documents) {
      case Documents::kOne:
        documents.push_back(3);
        break;
      case Documents::kInARow:  // borders at 5, 75, 145 ...
        documents.push_back(static_cast<int32_t>((at + 65) / 70));
        break;
      case Documents::kInterleaved:
        documents.push_back(static_cast<int32_t>(at / 3 % 2));
        break;
      case Documents::kEachItsOwn:
        documents.push_back(static_cast<int32_t>(1000 - at));
        break;
    }
  }
  return documents;
}

class CudaAttentionTest : public TwoSides,
                          public testing::WithParamInterface<AttentionCase> {};

/// bf16 probabilities and score gradients in the tensor-core form are 8 bits wide.
Tolerance AttentionTolerance(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{2e-5, 2e-5, 5e-6}
                              : Tolerance{0x1p-6, 0.04, 5e-3};
}

TEST_P(CudaAttentionTest, ForwardAndBackwardAgree) {
  const AttentionCase& c = GetParam();
  const int64_t query_columns = c.heads * c.head_dim;
  const int64_t key_columns = c.kv_heads * c.head_dim;
  // Query, key and value share rows, as the projection writes them.
  Tensor& packed = Normal(c.rows() * c.columns(), c.dtype);
  Tensor& documents = Integers(DocumentsOf(c));
  Tensor& output = Unwritten(c.rows() * query_columns, c.dtype);
  Tensor& log_sum_exp = Unwritten(c.heads * c.rows(), DType::kF32);
  Run([&](Side side) {
    return AttentionForward{.output = output.On(side),
                            .log_sum_exp = log_sum_exp.On(side),
                            .query = packed.On(side),
                            .key = packed.On(side, query_columns),
                            .value = packed.On(side, query_columns + key_columns),
                            .documents = documents.On(side),
                            .sequences = c.sequences,
                            .length = c.length,
                            .heads = c.heads,
                            .kv_heads = c.kv_heads,
                            .head_dim = c.head_dim,
                            .row_stride = c.columns(),
                            .scale = c.scale(),
                            .dtype = c.dtype};
  });
  ExpectClose(output, AttentionTolerance(c.dtype));
  ExpectClose(log_sum_exp, {1e-5, 1e-4, 1e-5});

  output.KeepCpuResult();
  log_sum_exp.KeepCpuResult();
  Tensor& gradient = Normal(c.rows() * query_columns, c.dtype);
  Tensor& packed_gradient = Unwritten(c.rows() * c.columns(), c.dtype);
  Tensor& workspace = Bytes(AttentionBackwardWorkspaceBytes(c.rows(), c.heads));
  Run([&](Side side) {
    return AttentionBackward{
        .query_gradient = packed_gradient.On(side),
        .key_gradient = packed_gradient.On(side, query_columns),
        .value_gradient = packed_gradient.On(side, query_columns + key_columns),
        .output_gradient = gradient.On(side),
        .output = output.On(side),
        .log_sum_exp = log_sum_exp.On(side),
        .query = packed.On(side),
        .key = packed.On(side, query_columns),
        .value = packed.On(side, query_columns + key_columns),
        .documents = documents.On(side),
        .sequences = c.sequences,
        .length = c.length,
        .heads = c.heads,
        .kv_heads = c.kv_heads,
        .head_dim = c.head_dim,
        .row_stride = c.columns(),
        .scale = c.scale(),
        .dtype = c.dtype,
        .workspace = workspace.On(side)};
  });
  ExpectClose(packed_gradient, AttentionTolerance(c.dtype));
}

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;

// Heads of 64 and 128 columns fill the tensor-core tiles; 40, 80 and 96 leave columns
// empty; 6 and 256 are for the plain form.
INSTANTIATE_TEST_SUITE_P(
    Bf16, CudaAttentionTest,
    testing::Values(
        AttentionCase{1, 1, 1, 1, 64, kBF16}, AttentionCase{2, 65, 3, 1, 64, kBF16},
        AttentionCase{1, 64, 2, 2, 128, kBF16}, AttentionCase{2, 200, 4, 2, 128, kBF16},
        AttentionCase{1, 33, 2, 2, 40, kBF16}, AttentionCase{1, 130, 2, 1, 80, kBF16},
        AttentionCase{1, 97, 2, 1, 96, kBF16, Documents::kInARow},
        AttentionCase{2, 300, 3, 1, 64, kBF16, Documents::kInARow},
        AttentionCase{1, 300, 2, 1, 128, kBF16, Documents::kInARow},
        AttentionCase{1, 150, 2, 2, 64, kBF16, Documents::kInterleaved},
        AttentionCase{1, 150, 2, 2, 128, kBF16, Documents::kEachItsOwn},
        AttentionCase{1, 50, 2, 1, 256, kBF16},
        AttentionCase{1, 50, 2, 1, 6, kBF16, Documents::kInARow}));

INSTANTIATE_TEST_SUITE_P(
    Fp32, CudaAttentionTest,
    testing::Values(AttentionCase{1, 1, 1, 1, 2, kF32},
                    AttentionCase{2, 77, 4, 2, 64, kF32},
                    AttentionCase{1, 40, 2, 1, 256, kF32},
                    AttentionCase{1, 170, 2, 1, 34, kF32, Documents::kInARow},
                    AttentionCase{1, 60, 3, 3, 6, kF32, Documents::kInterleaved}));

}  // namespace
}  // namespace strata
