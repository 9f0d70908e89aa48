#include "runtime/plan/residency.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// Spreads a share evenly over what it is asked about, by error diffusion.
class Spread {
 public:
  explicit Spread(double share) : share_(share) {}
  bool Next() {
    error_ += share_;
    if (error_ < 0.5) return false;
    error_ -= 1;
    return true;
  }

 private:
  double share_;
  double error_ = 0;
};

class Filler {
 public:
  Filler(const PlanRequest& request, const StepOrder& order,
         const TierBytes& home_bytes)
      : request_(request), trace_(request.trace), order_(order), left_(home_bytes) {}

  Decisions Fill() {
    Start();
    FillDevice();
    ChooseModes();
    SpillHost();
    return std::move(decisions_);
  }

 private:
  static constexpr TierKind kDevice = TierKind::kDevice;
  static constexpr TierKind kHost = TierKind::kHost;
  static constexpr TierKind kNvme = TierKind::kNvme;

  // Everything in host memory, pins obeyed.
  void Start() {
    const PlacementPins& pins = request_.pins;
    decisions_.segment_layers = order_.segment_layers;
    decisions_.groups = order_.groups;
    decisions_.activations = order_.activations;
    decisions_.accumulators = kHost;
    decisions_.weight_slots = 1 + order_.depth;
    decisions_.state_slots = StateSlots(order_);
    decisions_.updates_between = order_.depth > 0;
    decisions_.passes_activations = order_.depth > 0;
    decisions_.activation_slots = 1 + order_.depth;
    decisions_.stage_slots = order_.depth == 0 ? 1 : 4 * order_.depth;
    for (const LayerTrace& layer : trace_.layers) {
      LayerDecision decision;
      decision.weights = pins.weights.value_or(kHost);
      decision.slices = CutSlices(layer.trainable_elements, order_.slice_elements,
                                  trace_.tile_elements);
      for (SliceDecision& slice : decision.slices) {
        slice.state = pins.optimizer.value_or(kHost);
        slice.gradient = pins.gradients.value_or(kHost);
        slice.mode = trace_.updates_wait_for_norm ? UpdateMode::kDeferred
                                                  : UpdateMode::kImmediate;
      }
      decisions_.layers.push_back(std::move(decision));
    }
  }

  // Lagging and the cpu lane are for what crosses the link anyway. Both shares are even
  // over the layers, and that of the lagged slices is the same in both lanes.
  void ChooseModes() {
    Spread cpu(order_.cpu_share);
    Spread lagged[2] = {Spread(order_.lagged_share), Spread(order_.lagged_share)};
    for (LayerDecision& layer : decisions_.layers) {
      if (layer.weights == kDevice) continue;
      for (SliceDecision& slice : layer.slices) {
        if (slice.state == kDevice) continue;
        const bool on_cpu = slice.gradient != kDevice && cpu.Next();
        if (on_cpu) slice.update_lane = Lane::kCpu;
        if (trace_.updates_wait_for_norm && lagged[on_cpu ? 1 : 0].Next()) {
          slice.mode = UpdateMode::kLagged;
        }
      }
    }
  }

  int64_t WeightBytes(size_t layer) const {
    return trace_.layers[layer].total_elements * trace_.format.weight;
  }
  int64_t StateBytes(const SliceDecision& slice) const {
    return (slice.end - slice.begin) * trace_.format.state;
  }
  int64_t GradientBytes(const SliceDecision& slice) const {
    return slice.mode == UpdateMode::kImmediate
               ? 0
               : (slice.end - slice.begin) * trace_.format.gradient;
  }

  // ---- The device: whole layers at the turn of the step first, then an even share.

  void FillDevice() {
    TakePinned();
    for (size_t l = 0; l < std::min<size_t>(2, decisions_.layers.size()); ++l)
      MoveLayer(l);
    MoveSomeWeights();
    int64_t wanted = 0;
    for (const LayerDecision& layer : decisions_.layers) {
      for (const SliceDecision& slice : layer.slices) wanted += MovableBytes(slice);
    }
    if (wanted > 0) {
      Spread resident(std::min(
          1.0, static_cast<double>(left_.device) / static_cast<double>(wanted)));
      for (LayerDecision& layer : decisions_.layers) {
        for (SliceDecision& slice : layer.slices) {
          if (MovableBytes(slice) > 0 && resident.Next()) MoveSlice(slice);
        }
      }
    }
    for (size_t l = 0; l < decisions_.layers.size(); ++l) MoveWeights(l);
  }

  void TakePinned() {
    for (size_t l = 0; l < decisions_.layers.size(); ++l) {
      if (decisions_.layers[l].weights == kDevice) left_.device -= WeightBytes(l);
      for (const SliceDecision& slice : decisions_.layers[l].slices) {
        if (slice.state == kDevice) left_.device -= StateBytes(slice);
        if (slice.gradient == kDevice) left_.device -= GradientBytes(slice);
      }
    }
  }

  // Bytes that bringing the slice home to the device takes.
  int64_t MovableBytes(const SliceDecision& slice) const {
    int64_t bytes = 0;
    if (!request_.pins.optimizer && slice.state != kDevice) bytes += StateBytes(slice);
    if (!request_.pins.gradients && slice.gradient != kDevice)
      bytes += GradientBytes(slice);
    return bytes;
  }

  bool MoveSlice(SliceDecision& slice) {
    const int64_t bytes = MovableBytes(slice);
    if (bytes > left_.device) return false;
    left_.device -= bytes;
    if (!request_.pins.optimizer) slice.state = kDevice;
    if (!request_.pins.gradients) slice.gradient = kDevice;
    return true;
  }

  void MoveWeights(size_t l) {
    LayerDecision& layer = decisions_.layers[l];
    if (request_.pins.weights || layer.weights == kDevice) return;
    if (WeightBytes(l) > left_.device) return;
    left_.device -= WeightBytes(l);
    layer.weights = kDevice;
  }

  // The order's share of the layers that are not there yet.
  void MoveSomeWeights() {
    Spread resident(order_.weight_share);
    for (size_t l = 0; l < decisions_.layers.size(); ++l) {
      if (decisions_.layers[l].weights != kDevice && resident.Next()) MoveWeights(l);
    }
  }

  void MoveLayer(size_t l) {
    int64_t bytes = request_.pins.weights ? 0 : WeightBytes(l);
    for (const SliceDecision& slice : decisions_.layers[l].slices)
      bytes += MovableBytes(slice);
    if (bytes > left_.device) return;
    for (SliceDecision& slice : decisions_.layers[l].slices) MoveSlice(slice);
    MoveWeights(l);
  }

  // ---- Host memory: what does not fit goes to nvme, optimizer state first.

  void SpillHost() {
    int64_t state = 0, gradients = 0, rest = 0;
    for (size_t l = 0; l < decisions_.layers.size(); ++l) {
      const LayerDecision& layer = decisions_.layers[l];
      if (layer.weights == kHost) rest += WeightBytes(l);
      for (const SliceDecision& slice : layer.slices) {
        if (slice.state == kHost) state += StateBytes(slice);
        if (slice.gradient == kHost) gradients += GradientBytes(slice);
        if (slice.mode == UpdateMode::kLagged) {
          rest += (slice.end - slice.begin) * trace_.format.weight;
        }
      }
    }
    int64_t over = state + gradients + rest - left_.host;
    if (!request_.pins.optimizer) {
      over -= Spill(over, state, [&](SliceDecision& slice) {
        if (slice.state != kHost) return int64_t{0};
        slice.state = kNvme;
        return StateBytes(slice);
      });
    }
    if (!request_.pins.gradients) {
      over -= Spill(over, gradients, [&](SliceDecision& slice) {
        if (slice.gradient != kHost || GradientBytes(slice) == 0) return int64_t{0};
        slice.gradient = kNvme;
        return GradientBytes(slice);
      });
    }
    over -= Spill(over, rest, [&](SliceDecision& slice) {
      if (slice.mode != UpdateMode::kLagged || slice.speculated != kHost)
        return int64_t{0};
      slice.speculated = kNvme;
      return (slice.end - slice.begin) * trace_.format.weight;
    });
    for (size_t l = 0; l < decisions_.layers.size() && !request_.pins.weights; ++l) {
      if (over <= 0) break;
      if (decisions_.layers[l].weights != kHost) continue;
      decisions_.layers[l].weights = kNvme;
      over -= WeightBytes(l);
    }
  }

  // Moves an even share of the slices, `over` of `total` bytes, and then what is
  // missing.
  template <typename Move>
  int64_t Spill(int64_t over, int64_t total, const Move& move) {
    if (over <= 0 || total <= 0) return 0;
    int64_t moved = 0;
    Spread spread(
        std::min(1.0, static_cast<double>(over) / static_cast<double>(total)));
    for (LayerDecision& layer : decisions_.layers) {
      for (SliceDecision& slice : layer.slices) {
        if (spread.Next()) moved += move(slice);
      }
    }
    for (LayerDecision& layer : decisions_.layers) {
      for (SliceDecision& slice : layer.slices) {
        if (moved < over) moved += move(slice);
      }
    }
    return moved;
  }

  const PlanRequest& request_;
  const StepTrace& trace_;
  const StepOrder& order_;
  TierBytes left_;
  Decisions decisions_;
};

}  // namespace

std::vector<SliceDecision> CutSlices(int64_t elements, int64_t slice_elements,
                                     int64_t tile_elements) {
  std::vector<SliceDecision> slices;
  if (elements == 0) return slices;
  STRATA_CHECK(slice_elements > 0 && elements % tile_elements == 0);
  const int64_t tiles = elements / tile_elements;
  const int64_t count = std::min(CeilDiv(elements, slice_elements), tiles);
  for (int64_t i = 0; i < count; ++i) {
    SliceDecision slice;
    slice.begin = tiles * i / count * tile_elements;
    slice.end = tiles * (i + 1) / count * tile_elements;
    slices.push_back(slice);
  }
  return slices;
}

TierBytes HomeBytes(const StepTrace& trace, const Decisions& decisions) {
  TierBytes bytes;
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    const LayerDecision& layer = decisions.layers[l];
    bytes[layer.weights] += trace.layers[l].total_elements * trace.format.weight;
    for (const SliceDecision& slice : layer.slices) {
      const int64_t elements = slice.end - slice.begin;
      bytes[slice.state] += elements * trace.format.state;
      if (slice.mode != UpdateMode::kImmediate) {
        bytes[slice.gradient] += elements * trace.format.gradient;
      }
      if (slice.mode == UpdateMode::kLagged) {
        bytes[slice.speculated] += elements * trace.format.weight;
      }
    }
  }
  return bytes;
}

Decisions DecideHomes(const PlanRequest& request, const StepOrder& order,
                      const TierBytes& home_bytes) {
  return Filler(request, order, home_bytes).Fill();
}

}  // namespace strata
