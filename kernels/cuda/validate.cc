#include "kernels/cuda/validate.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <initializer_list>

#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

constexpr int64_t kGridX = INT32_MAX;  // blocks
constexpr int64_t kGridYZ = 65535;
constexpr int64_t kThreadsPerBlockMin = 256;  // of kernels with a thread per element

struct Extent {
  absl::string_view name;
  int64_t value;
  int64_t limit = kGridX;
};

absl::Status Refuse(absl::string_view operation, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("CUDA ", operation, ": ", why));
}

absl::Status CheckExtents(absl::string_view operation,
                          std::initializer_list<Extent> extents) {
  for (const Extent& extent : extents) {
    if (extent.value >= 1 && extent.value <= extent.limit) continue;
    return Refuse(operation, absl::StrCat(extent.name, " is ", extent.value,
                                          ", not within 1 to ", extent.limit));
  }
  return absl::OkStatus();
}

/// `count` elements with a thread for each, or for several.
absl::Status CheckCount(absl::string_view operation, int64_t count) {
  return CheckExtents(operation, {{"count", count, kGridX * kThreadsPerBlockMin}});
}

absl::Status CheckRows(absl::string_view operation, int64_t rows, int64_t width) {
  STRATA_RETURN_IF_ERROR(CheckExtents(operation, {{"rows", rows}, {"width", width}}));
  return CheckCount(operation, rows * width);
}

absl::Status CheckStride(absl::string_view operation, absl::string_view name,
                         int64_t stride, int64_t width) {
  if (stride >= width) return absl::OkStatus();
  return Refuse(operation,
                absl::StrCat(name, " is ", stride, ", less than a row of ", width));
}

template <typename Op>
absl::Status CheckAttention(absl::string_view operation, const Op& op) {
  STRATA_RETURN_IF_ERROR(CheckExtents(operation, {{"sequences", op.sequences, kGridYZ},
                                                  {"length", op.length},
                                                  {"heads", op.heads, kGridYZ},
                                                  {"kv_heads", op.kv_heads, kGridYZ},
                                                  {"head_dim", op.head_dim, 256}}));
  STRATA_RETURN_IF_ERROR(CheckCount(operation, op.sequences * op.length * op.heads));
  if (op.heads % op.kv_heads != 0) {
    return Refuse(operation, absl::StrCat(op.heads, " heads do not share ", op.kv_heads,
                                          " key heads evenly"));
  }
  if (op.head_dim % 2 != 0) {
    return Refuse(operation, absl::StrCat("head_dim ", op.head_dim, " is odd"));
  }
  if (!(op.scale > 0.0f)) {
    return Refuse(operation, absl::StrCat("scale ", op.scale, " is not positive"));
  }
  return CheckStride(operation, "row_stride", op.row_stride, op.heads * op.head_dim);
}

template <typename Op>
absl::Status CheckSwiGlu(absl::string_view operation, const Op& op) {
  STRATA_RETURN_IF_ERROR(CheckRows(operation, op.rows, op.width));
  return CheckStride(operation, "row_stride", op.row_stride, op.width);
}

/// A norm, over groups of rows or all of them behind each other.
template <typename Op>
absl::Status CheckNorm(absl::string_view operation, const Op& op) {
  STRATA_RETURN_IF_ERROR(CheckRows(operation, op.rows, op.width));
  if (op.groups.rows == 0) return absl::OkStatus();
  STRATA_RETURN_IF_ERROR(
      CheckExtents(operation, {{"rows of a group", op.groups.rows}}));
  return CheckStride(operation, "stride of groups", op.groups.stride,
                     op.groups.rows * op.width);
}

template <typename Op>
absl::Status CheckBias(absl::string_view operation, const Op& op) {
  STRATA_RETURN_IF_ERROR(CheckRows(operation, op.rows, op.width));
  return CheckStride(operation, "row_stride", op.row_stride, op.width);
}

}  // namespace

absl::Status Validate(const Matmul& op) {
  STRATA_RETURN_IF_ERROR(
      CheckExtents("matmul", {{"m", op.m}, {"n", op.n}, {"k", op.k}}));
  if (op.a_stride != 0) {
    STRATA_RETURN_IF_ERROR(
        CheckStride("matmul", "a_stride", op.a_stride, op.transpose_a ? op.m : op.k));
  }
  if (op.c_stride != 0) {
    STRATA_RETURN_IF_ERROR(CheckStride("matmul", "c_stride", op.c_stride, op.n));
  }
  if (op.dtype == DType::kF32 && op.c_dtype != DType::kF32) {
    return Refuse("matmul", "F32 operands give an F32 result only");
  }
  if (op.dtype == DType::kF16 || op.c_dtype == DType::kF16) {
    return Refuse("matmul", "F16 is not supported");
  }
  return absl::OkStatus();
}

absl::Status Validate(const EmbeddingForward& op) {
  STRATA_RETURN_IF_ERROR(CheckExtents("embedding", {{"vocab", op.vocab}}));
  return CheckRows("embedding", op.rows, op.width);
}

absl::Status Validate(const EmbeddingBackward& op) {
  STRATA_RETURN_IF_ERROR(CheckExtents("embedding gradient", {{"vocab", op.vocab}}));
  return CheckRows("embedding gradient", op.rows, op.width);
}

absl::Status Validate(const AddBias& op) { return CheckBias("bias", op); }

absl::Status Validate(const BiasGradient& op) { return CheckBias("bias gradient", op); }

absl::Status Validate(const RmsNormForward& op) { return CheckNorm("RMS norm", op); }

absl::Status Validate(const RmsNormBackward& op) {
  return CheckNorm("RMS norm gradient", op);
}

absl::Status Validate(const Rope& op) {
  STRATA_RETURN_IF_ERROR(CheckExtents(
      "rotary embedding", {{"heads", op.heads}, {"head_dim", op.head_dim}}));
  if (op.head_dim % 2 != 0) {
    return Refuse("rotary embedding",
                  absl::StrCat("head_dim ", op.head_dim, " is odd"));
  }
  STRATA_RETURN_IF_ERROR(
      CheckRows("rotary embedding", op.rows, op.heads * op.head_dim));
  return CheckStride("rotary embedding", "row_stride", op.row_stride,
                     op.heads * op.head_dim);
}

absl::Status Validate(const AttentionForward& op) {
  return CheckAttention("attention", op);
}

absl::Status Validate(const AttentionBackward& op) {
  return CheckAttention("attention gradient", op);
}

absl::Status Validate(const SwiGluForward& op) { return CheckSwiGlu("SwiGLU", op); }

absl::Status Validate(const SwiGluBackward& op) {
  return CheckSwiGlu("SwiGLU gradient", op);
}

absl::Status Validate(const Add& op) { return CheckCount("add", op.count); }

absl::Status Validate(const CrossEntropy& op) {
  return CheckExtents("cross-entropy", {{"rows", op.rows}, {"vocab", op.vocab}});
}

absl::Status Validate(const SumInOrder& op) {
  return op.count >= 0 ? absl::OkStatus() : Refuse("sum", "count is negative");
}

absl::Status Validate(const Fill& op) {
  return op.size_bytes >= 0 ? absl::OkStatus() : Refuse("fill", "size is negative");
}

absl::Status Validate(const ReduceGradient& op) {
  return CheckCount("gradient reduction", op.count);
}

absl::Status Validate(const AdamW& op) {
  STRATA_RETURN_IF_ERROR(CheckCount("AdamW", op.count));
  if (op.dtype == DType::kF16) return Refuse("AdamW", "F16 weights are not supported");
  if ((op.dtype == DType::kBF16) != (op.remainder != nullptr)) {
    return Refuse("AdamW", "a remainder belongs to BF16 weights, and to no others");
  }
  return absl::OkStatus();
}

}  // namespace strata::cuda
