/// Rotary position tables: cosines and sines of every position and frequency, computed
/// in double and stored as fp32 whatever the dtype of the run, since a 16-bit angle is
/// wrong from position 256 on.
#pragma once

#include <cstdint>
#include <vector>

#include "model/transformer_config.h"

namespace strata {

/// Radians per position of each of the head_dim / 2 pairs, scaled as `rope` says
/// (transformers' "default", "linear" and "llama3").
std::vector<double> RotaryFrequencies(const RopeConfig& rope, int64_t head_dim);

/// Fills cosines and sines, each fp32 [positions, head_dim / 2].
void WriteRotaryTables(const RopeConfig& rope, int64_t head_dim, int64_t positions,
                       float* cosines, float* sines);

}  // namespace strata
