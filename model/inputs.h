/// The inputs of a micro-batch as they lie in the host arena and cross the link:
/// tokens, targets, positions, documents, each int32 [tokens], one after the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/trainer.h"

namespace strata {

/// REQUIRES: spans of `tokens` values; InputBytes of such a micro-batch at `target`.
void WriteInputs(const MicroBatch& batch, int64_t tokens, std::byte* target);

/// Inputs of which nothing is trained.
void WriteUntrainedInputs(int64_t tokens, std::byte* target);

}  // namespace strata
