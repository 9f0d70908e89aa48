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
                         std::initializer_list<std::string> projections) {
  for (const std::string& name : projections) {
    const TensorPlacement& weight = layout.Find(name + ".weight");
    if (const TensorPlacement* bias = layout.FindOrNull(name + ".bias")) {
      biases_.push_back(
          {bias->first_element, outputs_, bias->count, bias->spec.trainable});
    }
    AddWeight(weight);
  }
  STRATA_CHECK(biases_.empty() || biases_.size() == projections.size());
}

void LinearGroup::AddWeight(const TensorPlacement& tensor) {
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

bool LinearGroup::trains() const {
  const auto trains = [](const auto& part) { return part.trainable; };
  return std::any_of(parts_.begin(), parts_.end(), trains) ||
         std::any_of(biases_.begin(), biases_.end(), trains);
}

int64_t LinearGroup::GradientWorkspaceBytes(int64_t rows) const {
  int64_t bytes = 0;
  for (const Bias& bias : biases_) {
    bytes = std::max(bytes, BiasGradientWorkspaceBytes(rows, bias.outputs));
  }
  return bytes;
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
  for (const Bias& bias : biases_) {
    STRATA_RETURN_IF_ERROR(context.kernels.Run(
        context.stream,
        AddBias{.values = Column(output, dtype, bias.first_output),
                .bias = Column(context.weights, dtype, bias.first_element),
                .rows = rows,
                .width = bias.outputs,
                .row_stride = outputs_,
                .dtype = dtype}));
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
                                         const void* input,
                                         std::byte* workspace) const {
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
  return BiasGradients(context, dtype, rows, output_gradient, workspace);
}

absl::Status LinearGroup::BiasGradients(const LayerContext& context, DType dtype,
                                        int64_t rows, const void* output_gradient,
                                        std::byte* workspace) const {
  for (const Bias& bias : biases_) {
    if (!bias.trainable) continue;
    STRATA_RETURN_IF_ERROR(context.kernels.Run(
        context.stream,
        BiasGradient{
            .accumulator = context.accumulator + bias.first_element,
            .output_gradient = Column(output_gradient, dtype, bias.first_output),
            .rows = rows,
            .width = bias.outputs,
            .row_stride = outputs_,
            .dtype = dtype,
            .workspace = workspace}));
  }
  return absl::OkStatus();
}

}  // namespace strata
