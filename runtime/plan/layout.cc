#include "runtime/plan/layout.h"

#include <absl/strings/str_cat.h>

#include "runtime/base/status.h"
#include "runtime/plan/packing.h"

namespace strata {
namespace {

absl::Status Contradiction(const StepTrace& trace, int32_t layer,
                           absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("decisions for layer '", trace.layers[layer].name, "': ", what));
}

absl::Status CheckSlice(const StepTrace& trace, int32_t layer,
                        const LayerDecision& decision, const SliceDecision& slice,
                        int64_t expected_begin) {
  if (slice.begin != expected_begin || slice.end <= slice.begin ||
      slice.begin % trace.tile_elements != 0 || slice.end % trace.tile_elements != 0) {
    return Contradiction(trace, layer, "slices must follow each other in whole tiles");
  }
  if (trace.updates_wait_for_norm && slice.mode == UpdateMode::kImmediate) {
    return Contradiction(trace, layer, "an immediate update cannot wait for the norm");
  }
  if (slice.mode == UpdateMode::kLagged && decision.weights == TierKind::kDevice) {
    return Contradiction(trace, layer, "weights at home on the device are not lagged");
  }
  if (slice.mode == UpdateMode::kLagged && slice.speculated == TierKind::kDevice) {
    return Contradiction(trace, layer,
                         "a speculated weight rests in host memory or nvme");
  }
  if (slice.update_lane == Lane::kCpu &&
      (decision.weights == TierKind::kDevice || slice.state == TierKind::kDevice ||
       slice.gradient == TierKind::kDevice || slice.speculated == TierKind::kDevice)) {
    return Contradiction(trace, layer,
                         "the cpu lane updates what rests in host memory or nvme");
  }
  if (slice.update_lane != Lane::kCpu && slice.update_lane != Lane::kCompute) {
    return Contradiction(trace, layer, "updates run in the compute or the cpu lane");
  }
  return absl::OkStatus();
}

class Homes {
 public:
  explicit Homes(TierBytes* end) : end_(*end) {}
  Extent Take(TierKind tier, int64_t size_bytes) {
    const Extent extent{tier, AlignUp(end_[tier], ArenaAlignment(tier)), size_bytes};
    end_[tier] = AlignUp(extent.offset + size_bytes, ArenaAlignment(tier));
    return extent;
  }

 private:
  TierBytes& end_;
};

}  // namespace

absl::StatusOr<Layout> MakeHomes(const StepTrace& trace, const Decisions& decisions,
                                 TierBytes* end) {
  STRATA_CHECK(decisions.layers.size() == trace.layers.size());
  *end = {};
  Homes homes(end);
  Layout layout;
  layout.constants = homes.Take(TierKind::kDevice, trace.constant_bytes);
  layout.tile_sums = homes.Take(TierKind::kDevice, trace.TotalTiles() * 4);
  layout.losses = homes.Take(TierKind::kDevice, int64_t{8} * trace.micro_batches);
  layout.flags = homes.Take(TierKind::kDevice, int64_t{8} * trace.layer_count());
  layout.inputs_host =
      homes.Take(TierKind::kHost, trace.micro_batches * trace.input_bytes);
  layout.tile_sums_host = homes.Take(TierKind::kHost, trace.TotalTiles() * 4);
  layout.losses_host = homes.Take(TierKind::kHost, int64_t{8} * trace.micro_batches);
  layout.flags_host = homes.Take(TierKind::kHost, int64_t{8} * trace.layer_count());
  layout.flags_cpu = homes.Take(TierKind::kHost, int64_t{8} * trace.layer_count());
  for (int32_t l = 0; l < trace.layer_count(); ++l) {
    const LayerDecision& decision = decisions.layers[l];
    LayerPlacement placement;
    placement.weights = homes.Take(
        decision.weights, trace.layers[l].total_elements * trace.format.weight);
    int64_t covered = 0;
    for (const SliceDecision& slice : decision.slices) {
      STRATA_RETURN_IF_ERROR(CheckSlice(trace, l, decision, slice, covered));
      covered = slice.end;
      SliceLayout home{slice.begin, slice.end, slice.mode, slice.update_lane,
                       {},          {},        {}};
      home.state = homes.Take(slice.state, home.elements() * trace.format.state);
      if (slice.mode != UpdateMode::kImmediate) {
        home.gradient =
            homes.Take(slice.gradient, home.elements() * trace.format.gradient);
      }
      if (slice.mode == UpdateMode::kLagged) {
        home.speculated =
            homes.Take(slice.speculated, home.elements() * trace.format.weight);
      }
      placement.slices.push_back(home);
    }
    if (covered != trace.layers[l].trainable_elements) {
      return Contradiction(trace, l, "slices do not cover the trainable elements");
    }
    layout.layers.push_back(std::move(placement));
  }
  return layout;
}

}  // namespace strata
