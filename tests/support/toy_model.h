/// Small models and data for tests of whole steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "model/batch.h"
#include "model/model_trace.h"
#include "model/trainer.h"
#include "model/transformer_config.h"

namespace strata {

struct ToyOptions {
  DType dtype = DType::kF32;
  std::optional<TransformerConfig> config;  // in place of the toy's own shape
  bool tied = false;
  bool biased = false;        // projections of the attention
  bool qk_norm = false;       // of the heads of queries and keys
  int32_t frozen_blocks = 0;  // the first ones, and the embedding with them
  int64_t sequences = 2;
  int64_t length = 12;
  int32_t micro_batches = 3;
};

inline constexpr int32_t kPoisonToken = 5;

/// A Llama, by default of three blocks with some tiles in each layer. Its head answers
/// a row that begins with kPoisonToken with gradients that are not numbers.
ModelShape ToyModel(const ToyOptions& options);

/// Seeded weights of about the size that trained ones have.
TensorReader ToyWeights();

/// Seeded rows; `trained`: the share of positions with a target.
Batch ToyBatch(const ModelShape& model, uint32_t seed, double trained, bool poisoned);

/// Borrows `batch`.
MicroBatch Borrow(const Batch& batch);

}  // namespace strata
