#include "model/model_trace.h"

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kConstantAlignment = 256;

}  // namespace

StateFormat FormatOf(DType dtype) {
  STRATA_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  return dtype == DType::kF32 ? StateFormat{.weight = 4, .state = 8, .gradient = 4}
                              : StateFormat{.weight = 2, .state = 10, .gradient = 2};
}

int64_t InputBytes(const MicroBatchShape& shape) {
  return AlignUp(4 * int64_t{sizeof(int32_t)} * shape.tokens(), 4 * kKiB);
}

std::vector<int64_t> ConstantOffsets(const ModelShape& model) {
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const auto& layer : model.layers) {
    if (const int same = layer->constants_layer(); same >= 0) {
      offsets.push_back(offsets[static_cast<size_t>(same)]);
      continue;
    }
    offsets.push_back(end);
    end += AlignUp(layer->ConstantBytes(model.micro_batch), kConstantAlignment);
  }
  offsets.push_back(end);
  return offsets;
}

StepTrace TraceStep(const ModelShape& model, int64_t matmul_workspace_bytes,
                    bool updates_wait_for_norm, int32_t rank, int32_t world) {
  STRATA_CHECK(world == 1 && rank == 0);
  StepTrace trace;
  trace.format = FormatOf(model.dtype);
  trace.micro_batches = model.micro_batches;
  trace.input_bytes = InputBytes(model.micro_batch);
  trace.constant_bytes = ConstantOffsets(model).back();
  trace.tile_elements = kTileElements;
  trace.updates_wait_for_norm = updates_wait_for_norm;
  for (const auto& layer : model.layers) {
    const LayerLayout layout = MakeLayout(*layer);
    const LayerFootprint bytes = layer->Footprint(model.micro_batch);
    const int64_t matmul = AlignUp(matmul_workspace_bytes, 256);
    trace.layers.push_back({.name = layer->name(),
                            .trainable_elements = layout.trainable_elements,
                            .total_elements = layout.total_elements,
                            .shared_layer = layer->shared_layer(),
                            // Whole pages, so that an activation can rest on nvme.
                            .output_bytes = AlignUp(bytes.output_bytes, 4 * kKiB),
                            .saved_bytes = AlignUp(bytes.saved_bytes, 256),
                            .forward_workspace_bytes =
                                matmul + AlignUp(bytes.forward_workspace_bytes, 256),
                            .backward_workspace_bytes =
                                matmul + AlignUp(bytes.backward_workspace_bytes, 256),
                            .forward_flops = bytes.forward_flops,
                            .backward_flops = bytes.backward_flops});
  }
  return trace;
}

}  // namespace strata
