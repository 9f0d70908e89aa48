#include "tests/support/llama_shapes.h"

#include <algorithm>
#include <string>

#include "runtime/base/size.h"

namespace strata {
namespace {

constexpr int64_t kMicroBatchTokens = 4096;
constexpr int64_t kSequence = 2048;
constexpr int64_t kWeightBytes = 2;

LayerTrace Layer(const StepTrace& trace, std::string name, int64_t parameters) {
  LayerTrace layer;
  layer.name = std::move(name);
  layer.total_elements = AlignUp(parameters, trace.tile_elements);
  layer.trainable_elements = layer.total_elements;
  return layer;
}

}  // namespace

StepTrace LlamaTrace(const LlamaSizes& sizes, int64_t tokens) {
  StepTrace trace;
  trace.format = {kWeightBytes, 10, 2};
  const int64_t rows = std::min(tokens, kMicroBatchTokens);
  trace.micro_batches = static_cast<int32_t>(tokens / rows);
  trace.input_bytes = 8 * rows;
  const int64_t h = sizes.hidden, f = sizes.inner;
  const int64_t block =
      2 * h * h + 2 * h * (h / sizes.heads) * sizes.key_heads + 3 * h * f + 2 * h;
  const double matmul = 2.0 * static_cast<double>(block);
  const double attention = 2.0 * kSequence * static_cast<double>(h);
  const int64_t inner_bytes = kWeightBytes * (8 * h + 3 * f) * rows;

  LayerTrace embedding = Layer(trace, "embedding", sizes.vocabulary * h);
  embedding.output_bytes = kWeightBytes * h * rows;
  trace.layers.push_back(embedding);
  for (int64_t i = 0; i < sizes.layers; ++i) {
    LayerTrace layer = Layer(trace, "block." + std::to_string(i), block);
    layer.output_bytes = embedding.output_bytes;
    layer.saved_bytes = inner_bytes;
    layer.forward_workspace_bytes = kGiB / 4;
    layer.backward_workspace_bytes = kGiB + inner_bytes * 6 / 10;
    layer.forward_flops = (matmul + attention) * static_cast<double>(rows);
    layer.backward_flops = (2 * matmul + 2.5 * attention) * static_cast<double>(rows);
    trace.layers.push_back(layer);
  }
  LayerTrace head = Layer(trace, "head", sizes.vocabulary * h + h);
  head.forward_workspace_bytes = head.backward_workspace_bytes = kGiB;
  head.forward_flops = 2.0 * static_cast<double>(sizes.vocabulary * h * rows);
  head.backward_flops = 3 * head.forward_flops;
  trace.layers.push_back(head);
  return trace;
}

MachineProfile ServerProfile() {
  MachineProfile profile;
  profile.name = "H200 server, 16 cores";
  profile.compute_flops = 650e12;
  profile.host_to_device = profile.device_to_host = 55e9;
  profile.both_directions = 102e9;
  profile.host_memory = 150e9;
  return profile;
}

}  // namespace strata
