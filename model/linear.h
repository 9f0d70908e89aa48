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
/// that lie one behind the other in the flat buffer are one product.
class LinearGroup {
 public:
  /// `tensors`: names, in the order of their outputs.
  LinearGroup(const LayerLayout& layout, std::initializer_list<std::string> tensors);

  int64_t outputs() const { return outputs_; }
  /// Whether any of the weights is trained.
  bool trains() const;

  /// output [rows, outputs] = input [rows, inputs] * weights^T
  absl::Status Forward(const LayerContext& context, DType dtype, int64_t rows,
                       const void* input, void* output) const;
  /// input_gradient [rows, inputs] = output_gradient [rows, outputs] * weights
  absl::Status InputGradient(const LayerContext& context, DType dtype, int64_t rows,
                             const void* output_gradient, void* input_gradient) const;
  /// accumulators of the weights += output_gradient^T * input; frozen ones are left
  /// out.
  absl::Status WeightGradient(const LayerContext& context, DType dtype, int64_t rows,
                              const void* output_gradient, const void* input) const;

 private:
  /// A weight [outputs, inputs] in the flat buffer, or several behind each other.
  struct Part {
    int64_t first_element;
    int64_t first_output;  // column of the group's output
    int64_t outputs, inputs;
    bool trainable;
  };
  std::vector<Part> parts_;
  int64_t outputs_ = 0;
};

}  // namespace strata
