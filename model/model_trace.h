/// What a list of layers needs, as the planner reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/layer.h"
#include "runtime/plan/step_trace.h"

namespace strata {

/// Layers and what follows from them for one run.
struct ModelShape {
  std::vector<std::unique_ptr<Layer>> layers;
  MicroBatchShape micro_batch;
  int32_t micro_batches = 1;  // of a full step
  DType dtype = DType::kF32;  // of weights, activations and gradients: F32 or BF16
};

/// fp32: weight 4, moments 8, gradient 4. bf16: weight 2, remainder and moments 10,
/// gradient 2.
StateFormat FormatOf(DType dtype);

/// Bytes of the inputs of one micro-batch: tokens, targets, positions and documents,
/// each int32 [tokens], one after the other, padded to 4 KiB.
int64_t InputBytes(const MicroBatchShape& shape);

/// `matmul_workspace_bytes` is added to each layer's workspace, in front of its own.
/// With `rank` of `world` > 1 collectives would be part of the trace; world is 1 today.
StepTrace TraceStep(const ModelShape& model, int64_t matmul_workspace_bytes,
                    bool updates_wait_for_norm, int32_t rank, int32_t world);

/// Byte offset of each layer's constants in the trace's constants.
std::vector<int64_t> ConstantOffsets(const ModelShape& model);

}  // namespace strata
