/// Moves weights and optimizer state between tensors and their homes in the tiers.
#pragma once

#include <absl/status/status.h>

#include <vector>

#include "model/parts.h"
#include "model/trainer.h"

namespace strata {

/// Writes every home of a model: weights from `reader`, remainders so that the master
/// is exact, moments zero. Holds one slice in memory at a time. REQUIRES: drained
/// executor.
absl::Status WriteInitialState(const ModelShape& model,
                               const std::vector<LayerLayout>& layouts,
                               const PlanSet& set, const TensorReader& reader,
                               Executor& executor);

/// Reads weights as the layers read them. REQUIRES: settled and drained.
absl::Status ReadHomeWeights(const ModelShape& model,
                             const std::vector<LayerLayout>& layouts,
                             const PlanSet& set, const TensorWriter& writer,
                             Executor& executor);

/// Reads one kind of state of the trainable tensors. REQUIRES: settled and drained.
absl::Status ReadHomeState(const ModelShape& model,
                           const std::vector<LayerLayout>& layouts, const PlanSet& set,
                           StateKind kind, const TensorWriter& writer,
                           Executor& executor);

/// Shows every part of every tensor as it rests, a slice at a time and each home once,
/// in the order of layers and of the tensors in their layouts. REQUIRES: settled and
/// drained.
absl::Status ReadHomeParts(const ModelShape& model,
                           const std::vector<LayerLayout>& layouts, const PlanSet& set,
                           const PartsVisitor& visit, Executor& executor);

/// Writes every home from parts that `fill` fills; padding is zero. In the same order.
/// REQUIRES: drained.
absl::Status WriteHomeParts(const ModelShape& model,
                            const std::vector<LayerLayout>& layouts, const PlanSet& set,
                            const PartsVisitor& fill, Executor& executor);

}  // namespace strata
