#include "model/linear.h"

#include <algorithm>
#include <type_traits>

#include "runtime/base/status.h"

namespace strata {
namespace {

template <typename T>
T* Column(T* data, DType dtype, int64_t column) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  return static_cast<Byte*>(data) + column * SizeOf(dtype);
}

}  // namespace

LinearGroup::LinearGroup(const LayerLayout& layout,
                         std::initializer_list<std::string> tensors) {
  for (const std::string& name : tensors) {
    const TensorPlacement& tensor = layout.Find(name);
    const int64_t outputs = tensor.spec.shape[0], inputs = tensor.spec.shape[1];
    const bool follows = !parts_.empty() &&
                         parts_.back().trainable == tensor.spec.trainable &&
                         parts_.back().first_element + parts_.back().outputs * inputs ==
                             tensor.first_element;
    if (follows) {
      parts_.back().outputs += outputs;
    } else {
      parts_.push_back(
          {tensor.first_element, outputs_, outputs, inputs, tensor.spec.trainable});
    }
    outputs_ += outputs;
  }
}

bool LinearGroup::trains() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const Part& part) { return part.trainable; });
}

absl::Status LinearGroup::Forward(const LayerContext& context, DType dtype,
                                  int64_t rows, const void* input, void* output) const {
  for (const Part& part : parts_) {
    STRATA_RETURN_IF_ERROR(context.kernels.Run(
        context.stream, Matmul{.c = Column(output, dtype, part.first_output),
                               .a = input,
                               .b = Column(context.weights, dtype, part.first_element),
                               .m = rows,
                               .n = part.outputs,
                               .k = part.inputs,
                               .c_stride = outputs_,
                               .transpose_b = true,
                               .dtype = dtype,
                               .c_dtype = dtype,
                               .workspace = context.matmul_workspace}));
  }
  return absl::OkStatus();
}

absl::Status LinearGroup::InputGradient(const LayerContext& context, DType dtype,
                                        int64_t rows, const void* output_gradient,
                                        void* input_gradient) const {
  for (const Part& part : parts_) {
    STRATA_RETURN_IF_ERROR(context.kernels.Run(
        context.stream, Matmul{.c = input_gradient,
                               .a = Column(output_gradient, dtype, part.first_output),
                               .b = Column(context.weights, dtype, part.first_element),
                               .m = rows,
                               .n = part.inputs,
                               .k = part.outputs,
                               .a_stride = outputs_,
                               .accumulate = part.first_output > 0,
                               .dtype = dtype,
                               .c_dtype = dtype,
                               .workspace = context.matmul_workspace}));
  }
  return absl::OkStatus();
}

absl::Status LinearGroup::WeightGradient(const LayerContext& context, DType dtype,
                                         int64_t rows, const void* output_gradient,
                                         const void* input) const {
  for (const Part& part : parts_) {
    if (!part.trainable) continue;
    STRATA_RETURN_IF_ERROR(context.kernels.Run(
        context.stream, Matmul{.c = context.accumulator + part.first_element,
                               .a = Column(output_gradient, dtype, part.first_output),
                               .b = input,
                               .m = part.outputs,
                               .n = part.inputs,
                               .k = rows,
                               .a_stride = outputs_,
                               .transpose_a = true,
                               .accumulate = true,
                               .dtype = dtype,
                               .c_dtype = DType::kF32,
                               .workspace = context.matmul_workspace}));
  }
  return absl::OkStatus();
}

}  // namespace strata
