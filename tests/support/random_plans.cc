#include "tests/support/random_plans.h"

#include <algorithm>
#include <string>

namespace strata {
namespace {

int32_t Pick(std::mt19937& random, int32_t low, int32_t high) {  // both inclusive
  return std::uniform_int_distribution<int32_t>(low, high)(random);
}
bool Chance(std::mt19937& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}
TierKind AnyTier(std::mt19937& random) {
  return static_cast<TierKind>(Pick(random, 0, 2));
}
TierKind OffDevice(std::mt19937& random) {
  return Chance(random, 0.5) ? TierKind::kHost : TierKind::kNvme;
}

SliceDecision RandomSlice(std::mt19937& random, const StepTrace& trace,
                          TierKind weights) {
  SliceDecision slice;
  slice.mode = Chance(random, 0.5) ? UpdateMode::kDeferred : UpdateMode::kLagged;
  if (!trace.updates_wait_for_norm && Chance(random, 0.7))
    slice.mode = UpdateMode::kImmediate;
  if (weights == TierKind::kDevice && slice.mode == UpdateMode::kLagged) {
    slice.mode = UpdateMode::kDeferred;
  }
  if (weights != TierKind::kDevice && Chance(random, 0.3)) {
    slice.update_lane = Lane::kCpu;
    slice.state = OffDevice(random);
    slice.gradient = OffDevice(random);
  } else {
    slice.state = AnyTier(random);
    slice.gradient = AnyTier(random);
  }
  slice.speculated = OffDevice(random);
  return slice;
}

}  // namespace

StepTrace RandomTrace(std::mt19937& random, int32_t layers_max) {
  StepTrace trace;
  trace.tile_elements = 2048;
  trace.format = Chance(random, 0.5) ? StateFormat{2, 10, 2} : StateFormat{4, 8, 4};
  trace.micro_batches = Pick(random, 1, 4);
  trace.input_bytes = 4 * kKiB;
  trace.constant_bytes = Chance(random, 0.5) ? 512 : 0;
  trace.updates_wait_for_norm = Chance(random, 0.7);
  const int32_t layers = Pick(random, 3, layers_max);
  for (int32_t l = 0; l < layers; ++l) {
    LayerTrace layer;
    layer.name = l == 0            ? "embedding"
                 : l + 1 == layers ? "head"
                                   : "block." + std::to_string(l - 1);
    const int32_t trainable = Chance(random, 0.85) ? Pick(random, 1, 5) : 0;
    layer.trainable_elements = trainable * trace.tile_elements;
    layer.total_elements =
        layer.trainable_elements +
        (trainable == 0 || Chance(random, 0.2)) * trace.tile_elements;
    layer.output_bytes = l + 1 == layers ? 0 : 8 * kKiB;
    layer.saved_bytes =
        l + 1 == layers || Chance(random, 0.2) ? 0 : 4 * kKiB * Pick(random, 1, 4);
    layer.forward_workspace_bytes = Chance(random, 0.5) ? 4 * kKiB : 0;
    layer.backward_workspace_bytes = 8 * kKiB;
    layer.forward_flops = 1e9 * Pick(random, 1, 100);
    layer.backward_flops = 2 * layer.forward_flops;
    trace.layers.push_back(layer);
  }
  if (Chance(random, 0.4)) trace.layers.back().shared_layer = 0;
  if (trace.LowestTrainable() == trace.layer_count()) {
    trace.layers[1].trainable_elements = trace.layers[1].total_elements =
        trace.tile_elements;
  }
  return trace;
}

Decisions RandomDecisions(std::mt19937& random, const StepTrace& trace) {
  Decisions decisions;
  decisions.segment_layers = Pick(random, 1, 3);
  decisions.groups = Pick(random, 1, 3);
  decisions.activations = AnyTier(random);
  decisions.accumulators = Chance(random, 0.5) ? TierKind::kDevice : TierKind::kHost;
  decisions.weight_slots = Pick(random, 1, 3);
  decisions.state_slots = Pick(random, 1, 4);
  decisions.activation_slots = Pick(random, 1, 3);
  decisions.stage_slots = Pick(random, 1, 5);
  decisions.passes_activations = Chance(random, 0.5);
  decisions.updates_between = Chance(random, 0.5);
  for (const LayerTrace& layer : trace.layers) {
    LayerDecision decision;
    decision.weights = AnyTier(random);
    for (int64_t begin = 0; begin < layer.trainable_elements;) {
      const int64_t tiles = (layer.trainable_elements - begin) / trace.tile_elements;
      SliceDecision slice = RandomSlice(random, trace, decision.weights);
      slice.begin = begin;
      slice.end = begin + trace.tile_elements *
                              Pick(random, 1,
                                   static_cast<int32_t>(std::min<int64_t>(tiles, 3)));
      begin = slice.end;
      decision.slices.push_back(slice);
    }
    decisions.layers.push_back(decision);
  }
  return decisions;
}

}  // namespace strata
