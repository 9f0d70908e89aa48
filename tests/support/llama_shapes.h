/// Step traces of Llama models from their sizes alone: what the planner is judged on.
#pragma once

#include <cstdint>

#include "runtime/plan/machine_profile.h"
#include "runtime/plan/step_trace.h"

namespace strata {

struct LlamaSizes {
  int64_t hidden = 0, inner = 0, layers = 0, heads = 0, key_heads = 0, vocabulary = 0;
};
inline constexpr LlamaSizes kLlama3B{3200, 8640, 26, 32, 32, 32000};
inline constexpr LlamaSizes kLlama7B{4096, 11008, 32, 32, 32, 32000};
inline constexpr LlamaSizes kLlama70B{8192, 28672, 80, 64, 8, 32000};

/// bf16 with fp32 moments and clipping. `tokens` of a step, in micro-batches of at most
/// 4096 tokens of sequences of 2048: FLOP with causal attention and full recompute,
/// 1 GiB of workspace, and 1.6 times the inner activations of one block.
StepTrace LlamaTrace(const LlamaSizes& sizes, int64_t tokens);

/// A server with one H200, 16 cores: sustained FLOP, PCIe and memory as measured there.
MachineProfile ServerProfile();

/// What of 24 GiB is left for arenas once CUDA has taken its own.
inline constexpr int64_t kDevice24 = int64_t{233} * 1024 * 1024 * 1024 / 10;

}  // namespace strata
