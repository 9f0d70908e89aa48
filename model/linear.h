/// Matrix products of a layer with its weights, in the three forms that training needs.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "model/layer.h"

namespace strata {

/// Weights that share their input, and whose outputs stand side by side in a row; those
/// that lie one behind the other in the flat buffer are one product. Each has a bias,
/// or none has.
class LinearGroup {
 public:
  /// `projections`: names without ".weight", in the order of their outputs. A tensor of
  /// that name with ".bias" is the bias.
  LinearGroup(const LayerLayout& layout,
              std::initializer_list<std::string> projections);

  int64_t outputs() const { return outputs_; }
  /// Whether any of the weights or biases is trained.
  bool trains() const;
  /// Workspace of WeightGradient.
  int64_t GradientWorkspaceBytes(int64_t rows) const;

  /// output [rows, outputs] = input [rows, inputs] * weights^T + biases
  absl::Status Forward(const LayerContext& context, DType dtype, int64_t rows,
                       const void* input, void* output) const;
  /// input_gradient [rows, inputs] = output_gradient [rows, outputs] * weights
  absl::Status InputGradient(const LayerContext& context, DType dtype, int64_t rows,
                             const void* output_gradient, void* input_gradient) const;
  /// accumulators of the weights += output_gradient^T * input, and of the biases += the
  /// sum of output_gradient's rows; frozen ones are left out.
  absl::Status WeightGradient(const LayerContext& context, DType dtype, int64_t rows,
                              const void* output_gradient, const void* input,
                              std::byte* workspace) const;

 private:
  /// A weight [outputs, inputs] in the flat buffer, or several behind each other.
  struct Part {
    int64_t first_element;
    int64_t first_output;  // column of the group's output
    int64_t outputs, inputs;
    bool trainable;
  };
  struct Bias {
    int64_t first_element;
    int64_t first_output;
    int64_t outputs;
    bool trainable;
  };

  void AddWeight(const TensorPlacement& tensor);
  absl::Status BiasGradients(const LayerContext& context, DType dtype, int64_t rows,
                             const void* output_gradient, std::byte* workspace) const;

  std::vector<Part> parts_;
  std::vector<Bias> biases_;
  int64_t outputs_ = 0;
};

}  // namespace strata
