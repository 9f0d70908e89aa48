#include "kernels/cuda/matmul.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>

#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr uint32_t kAlignmentMax = 16;  // bytes: no algorithm asks for more
constexpr int kCandidates = 16;

absl::Status CublasStatus(cublasStatus_t status, absl::string_view context) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat("cuBLASLt, ", context, ": ", cublasLtGetStatusString(status), " (",
                   cublasLtGetStatusName(status), ")");
  switch (status) {
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_INVALID_VALUE:
      return absl::InvalidArgumentError(message);
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError(message);
  }
}

uint32_t AlignmentOf(const void* pointer) {
  uint32_t alignment = kAlignmentMax;
  while (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) alignment /= 2;
  return alignment;
}

cudaDataType_t CudaType(DType dtype) {
  return dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// What cuBLASLt wants to know of a product. It thinks in columns, and a row-major
/// matrix is the transpose of what it sees; so it computes c^T = op(b)^T op(a)^T: its
/// first operand is our b, its second our a, and its rows are our columns.
struct Description {
  cublasLtMatmulDescOpaque_t product;
  cublasLtMatrixLayoutOpaque_t b;
  cublasLtMatrixLayoutOpaque_t a;
  cublasLtMatrixLayoutOpaque_t c;
};

absl::Status Describe(const MatmulShape& of, Description& description) {
  constexpr absl::string_view kContext = "describing a product";
  const auto operation = [](bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  STRATA_RETURN_IF_ERROR(CublasStatus(
      cublasLtMatmulDescInit(&description.product, CUBLAS_COMPUTE_32F, CUDA_R_32F),
      kContext));
  const cublasOperation_t first = operation(of.transpose_b);
  const cublasOperation_t second = operation(of.transpose_a);
  STRATA_RETURN_IF_ERROR(CublasStatus(
      cublasLtMatmulDescSetAttribute(&description.product, CUBLASLT_MATMUL_DESC_TRANSA,
                                     &first, sizeof(first)),
      kContext));
  STRATA_RETURN_IF_ERROR(CublasStatus(
      cublasLtMatmulDescSetAttribute(&description.product, CUBLASLT_MATMUL_DESC_TRANSB,
                                     &second, sizeof(second)),
      kContext));
  const auto layout = [&](cublasLtMatrixLayoutOpaque_t& target, DType dtype,
                          int64_t columns, int64_t rows, int64_t stride) {
    return CublasStatus(
        cublasLtMatrixLayoutInit(&target, CudaType(dtype), columns, rows, stride),
        kContext);
  };
  const int64_t b_columns = of.transpose_b ? of.k : of.n;
  const int64_t b_rows = of.transpose_b ? of.n : of.k;
  STRATA_RETURN_IF_ERROR(layout(description.b, of.dtype, b_columns, b_rows, b_columns));
  STRATA_RETURN_IF_ERROR(layout(description.a, of.dtype, of.transpose_a ? of.m : of.k,
                                of.transpose_a ? of.k : of.m, of.a_stride));
  return layout(description.c, of.c_dtype, of.n, of.m, of.c_stride);
}

template <typename T>
absl::Status Prefer(cublasLtMatmulPreferenceOpaque_t& preference,
                    cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  return CublasStatus(cublasLtMatmulPreferenceSetAttribute(&preference, attribute,
                                                           &value, sizeof(value)),
                      "stating a preference");
}

absl::Status StatePreferences(const MatmulShape& shape,
                              cublasLtMatmulPreferenceOpaque_t& preference) {
  STRATA_RETURN_IF_ERROR(
      CublasStatus(cublasLtMatmulPreferenceInit(&preference), "stating a preference"));
  STRATA_RETURN_IF_ERROR(Prefer<uint64_t>(preference,
                                          CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                          CublasMatmul::kWorkspaceBytes));
  STRATA_RETURN_IF_ERROR(
      Prefer<uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                       shape.transpose_a ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                         : CUBLASLT_REDUCTION_SCHEME_NONE));
  STRATA_RETURN_IF_ERROR(Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                shape.b_alignment));
  STRATA_RETURN_IF_ERROR(Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                shape.a_alignment));
  STRATA_RETURN_IF_ERROR(Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                shape.c_alignment));
  return Prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
                shape.c_alignment);
}

}  // namespace

MatmulShape MatmulShape::Of(const Matmul& op) {
  const int64_t a_columns = op.transpose_a ? op.m : op.k;
  return {.m = op.m,
          .n = op.n,
          .k = op.k,
          .a_stride = op.a_stride == 0 ? a_columns : op.a_stride,
          .c_stride = op.c_stride == 0 ? op.n : op.c_stride,
          .transpose_a = op.transpose_a,
          .transpose_b = op.transpose_b,
          .dtype = op.dtype,
          .c_dtype = op.c_dtype,
          .a_alignment = AlignmentOf(op.a),
          .b_alignment = AlignmentOf(op.b),
          .c_alignment = AlignmentOf(op.c)};
}

absl::StatusOr<std::unique_ptr<CublasMatmul>> CublasMatmul::Create() {
  cublasLtHandle_t handle = nullptr;
  STRATA_RETURN_IF_ERROR(CublasStatus(cublasLtCreate(&handle), "start"));
  return std::unique_ptr<CublasMatmul>(new CublasMatmul(handle));
}

CublasMatmul::~CublasMatmul() { static_cast<void>(cublasLtDestroy(handle_)); }

absl::StatusOr<cublasLtMatmulAlgo_t> CublasMatmul::Choose(
    const MatmulShape& shape) const {
  MatmulShape asked = shape;
  if (!shape.transpose_a) asked.m = kRowsAssumed;
  Description description;
  STRATA_RETURN_IF_ERROR(Describe(asked, description));
  cublasLtMatmulPreferenceOpaque_t preference;
  STRATA_RETURN_IF_ERROR(StatePreferences(shape, preference));
  std::array<cublasLtMatmulHeuristicResult_t, kCandidates> candidates;
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &description.product, &description.b, &description.a, &description.c,
      &description.c, &preference, kCandidates, candidates.data(), &count);
  const std::string context =
      absl::StrCat("choosing an algorithm for m=", shape.m, " n=", shape.n,
                   " k=", shape.k, shape.transpose_a ? " a^T" : "",
                   shape.transpose_b ? " b^T" : "", " in ", Name(shape.dtype));
  STRATA_RETURN_IF_ERROR(CublasStatus(status, context));
  STRATA_RETURN_IF_ERROR(Describe(shape, description));
  for (int i = 0; i < count; ++i) {
    if (candidates[i].state != CUBLAS_STATUS_SUCCESS) continue;
    cublasLtMatmulHeuristicResult_t check;
    const cublasStatus_t checked = cublasLtMatmulAlgoCheck(
        handle_, &description.product, &description.b, &description.a, &description.c,
        &description.c, &candidates[i].algo, &check);
    if (checked == CUBLAS_STATUS_SUCCESS && check.workspaceSize <= kWorkspaceBytes) {
      return candidates[i].algo;
    }
  }
  return CublasStatus(CUBLAS_STATUS_NOT_SUPPORTED, context);
}

absl::StatusOr<const cublasLtMatmulAlgo_t*> CublasMatmul::AlgorithmFor(
    const MatmulShape& shape) {
  auto found = algorithms_.find(shape);
  if (found == algorithms_.end()) {
    STRATA_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t algorithm, Choose(shape));
    found = algorithms_.emplace(shape, algorithm).first;
  }
  return &found->second;
}

absl::Status CublasMatmul::Run(cudaStream_t stream, const Matmul& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const MatmulShape shape = MatmulShape::Of(op);
  STRATA_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t* const algorithm,
                          AlgorithmFor(shape));
  Description description;
  STRATA_RETURN_IF_ERROR(Describe(shape, description));
  const float alpha = 1.0f;
  const float beta = op.accumulate ? 1.0f : 0.0f;
  return CublasStatus(
      cublasLtMatmul(handle_, &description.product, &alpha, op.b, &description.b, op.a,
                     &description.a, &beta, op.c, &description.c, op.c, &description.c,
                     algorithm, op.workspace, kWorkspaceBytes, stream),
      "matmul");
}

}  // namespace strata::cuda
