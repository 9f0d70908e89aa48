/// The trainer as one would write it without tiers: everything in plain vectors, one
/// micro-batch after the other through all layers, a barrier, then the update. It
/// shares layers and kernels with the product, and nothing else: no plan, no executor,
/// no speculation, and an optimizer of its own, typed from the formula.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/trainer.h"

namespace strata {

struct SerialStep {
  double loss = 0;
  double grad_norm = 0;
  bool clipped = false;
  bool skipped = false;
};

class SerialTrainer {
 public:
  /// `model` outlives the trainer.
  SerialTrainer(const ModelShape& model, const OptimizerSettings& optimizer,
                int threads);

  absl::Status LoadWeights(const TensorReader& reader);
  absl::StatusOr<SerialStep> Step(std::span<const MicroBatch> batches,
                                  double learning_rate);
  absl::StatusOr<double> Evaluate(std::span<const MicroBatch> batches);

  /// Whole tensors by name, exactly.
  std::map<std::string, std::vector<float>> Weights() const;
  std::map<std::string, std::vector<float>> State(StateKind kind) const;

 private:
  struct LayerState {
    LayerLayout layout;
    std::vector<float> master, moment1, moment2;  // flat
    std::vector<std::byte> weights;               // as the layer reads it
    std::vector<float> accumulator, shared_accumulator;
    std::vector<std::byte> gradient;
    std::vector<float> tile_sums;
  };

  absl::Status MicroBatchPass(const MicroBatch& batch, float loss_scale, bool train,
                              double* loss);
  LayerContext Context(size_t layer, const MicroBatch& batch);
  void RefreshWeights(LayerState& state);
  void Update(LayerState& state, double learning_rate, double clip_factor);
  std::map<std::string, std::vector<float>> Collect(
      const std::vector<float> LayerState::*values, bool trainable_only) const;

  const ModelShape& model_;
  const OptimizerSettings optimizer_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<LayerState> layers_;
  std::vector<std::vector<std::byte>> constants_, outputs_, saved_, gradients_;
  std::vector<std::byte> workspace_, matmul_workspace_;
  int64_t step_ = 0;
};

}  // namespace strata
