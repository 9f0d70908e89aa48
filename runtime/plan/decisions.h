/// What the planner decides before it writes a plan: none of it changes a bit of a
/// result, only bytes held and time spent.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

struct SliceDecision {
  int64_t begin = 0, end = 0;  // elements
  UpdateMode mode = UpdateMode::kDeferred;
  Lane update_lane = Lane::kCompute;
  TierKind state = TierKind::kHost;
  TierKind gradient = TierKind::kHost;
  TierKind speculated = TierKind::kHost;
};

struct LayerDecision {
  TierKind weights = TierKind::kHost;
  std::vector<SliceDecision> slices;
};

struct Decisions {
  std::vector<LayerDecision> layers;
  int32_t segment_layers = 1;  // layers between two kept activations
  int32_t groups = 1;  // the micro-batches of a step go through in so many parts
  TierKind activations = TierKind::kHost;  // kept at segment borders
  /// What one segment hands to the next stays on the device for it, all micro-batches;
  /// else it goes home and comes back. Where activations rest off the device.
  bool passes_activations = true;
  TierKind accumulators = TierKind::kHost;  // between groups; of a shared tensor always

  /// How many buffers of a kind exist at once: 1 = no prefetch. More run further ahead.
  int32_t weight_slots = 2;      // layers beyond the segment's own
  int32_t state_slots = 3;       // slices
  int32_t activation_slots = 2;  // micro-batches, each way
  int32_t stage_slots = 4;       // host buffers between nvme and device, each way
  /// Updates stand between the micro-batches of the neighbouring segment, so that the
  /// compute lane need not wait for their state; else between the segments. Takes the
  /// accumulators of two segments.
  bool updates_between = true;
};

}  // namespace strata
