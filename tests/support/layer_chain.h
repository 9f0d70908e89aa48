/// Layers one after the other, without plan, tiers or optimizer: the forward and
/// backward pass of one micro-batch. Every buffer has exactly the size that the layers
/// ask for, and sentinels around it.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/layer.h"
#include "tests/support/inline_stream.h"
#include "tests/support/test_tensor.h"

namespace strata {

class LayerChain {
 public:
  LayerChain(std::vector<std::unique_ptr<Layer>> layers, MicroBatchShape shape,
             DType dtype);

  /// The layer's part of a tensor, by its name; trainable or not.
  const TensorPlacement& Find(const std::string& name) const;
  std::vector<TensorPlacement> tensors() const;
  void SetWeight(const std::string& name, std::span<const float> values);
  double Weight(const std::string& name, int64_t i) const;
  void SetWeight(const std::string& name, int64_t i, double value);

  /// Forward through all layers; returns the sum of losses.
  double Loss(const Batch& batch);
  /// Forward, then backward down to layer `lowest`; returns the sum of losses.
  /// Gradients are those of loss_scale * sum.
  double Train(const Batch& batch, float loss_scale, size_t lowest = 0);
  /// Forward of one layer once more, for `saved` alone, into memory of its own.
  TestTensor Recompute(const Batch& batch, size_t layer);

  /// Of the last Train; both uses of a shared tensor added up.
  std::vector<double> Gradient(const std::string& name) const;
  double GradientNorm() const;

  const TestTensor& saved(size_t layer) const { return states_[layer].saved; }
  TestTensor& output(size_t layer) { return states_[layer].output; }
  /// [tokens, vocab], if asked for before Loss.
  void WantLogits(int64_t vocab);
  const TestTensor& logits() const { return logits_; }

 private:
  struct State {
    LayerLayout layout;
    TestTensor weights, constants, output, output_gradient, saved;
    TestTensor accumulator, shared_accumulator;
  };

  size_t LayerOf(const std::string& name) const;
  LayerContext Context(const Batch& batch, size_t layer, const TestTensor& workspace);
  void Forward(const Batch& batch, size_t layer);

  std::vector<std::unique_ptr<Layer>> layers_;
  const MicroBatchShape shape_;
  InlineStream stream_;
  std::unique_ptr<Kernels> kernels_;
  TestTensor matmul_workspace_;
  TestTensor logits_{DType::kF32, 0};
  std::vector<State> states_;
  double loss_sum_ = 0;
};

}  // namespace strata
