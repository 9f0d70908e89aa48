#include "runtime/plan/verifier_layout.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"

namespace strata::verifier {
namespace {

template <typename... What>
absl::Status LayoutError(const What&... what) {
  return absl::InternalError(absl::StrCat("layout: ", what...));
}

absl::Status CheckExtent(absl::string_view name, const Extent& extent,
                         int64_t size_bytes) {
  if (extent.size_bytes == size_bytes) return absl::OkStatus();
  return LayoutError(name, " has ", extent.size_bytes, " bytes instead of ",
                     size_bytes);
}

absl::Status CheckFixed(absl::string_view name, const Extent& extent, TierKind tier,
                        int64_t size_bytes) {
  if (extent.tier != tier && size_bytes > 0) {
    return LayoutError(name, " rests in tier ", Name(extent.tier), " instead of ",
                       Name(tier));
  }
  return CheckExtent(name, extent, size_bytes);
}

absl::Status CheckFixedExtents(const StepTrace& trace, const Layout& layout) {
  const int64_t sums = trace.TotalTiles() * 4;
  const int64_t losses = int64_t{8} * trace.micro_batches;
  const int64_t flags = int64_t{8} * trace.layer_count();
  constexpr TierKind kDevice = TierKind::kDevice, kHost = TierKind::kHost;
  STRATA_RETURN_IF_ERROR(
      CheckFixed("constants", layout.constants, kDevice, trace.constant_bytes));
  STRATA_RETURN_IF_ERROR(CheckFixed("inputs_host", layout.inputs_host, kHost,
                                    trace.micro_batches * trace.input_bytes));
  STRATA_RETURN_IF_ERROR(CheckFixed("tile_sums", layout.tile_sums, kDevice, sums));
  STRATA_RETURN_IF_ERROR(
      CheckFixed("tile_sums_host", layout.tile_sums_host, kHost, sums));
  STRATA_RETURN_IF_ERROR(CheckFixed("losses", layout.losses, kDevice, losses));
  STRATA_RETURN_IF_ERROR(CheckFixed("losses_host", layout.losses_host, kHost, losses));
  STRATA_RETURN_IF_ERROR(CheckFixed("flags", layout.flags, kDevice, flags));
  STRATA_RETURN_IF_ERROR(CheckFixed("flags_host", layout.flags_host, kHost, flags));
  return CheckFixed("flags_cpu", layout.flags_cpu, kHost, flags);
}

absl::Status CheckSlice(const StepTrace& trace, const std::string& name,
                        const SliceLayout& slice, int64_t begin) {
  if (slice.begin != begin || slice.end <= slice.begin ||
      slice.begin % trace.tile_elements != 0 || slice.end % trace.tile_elements != 0) {
    return LayoutError(name, " covers elements [", slice.begin, ", ", slice.end,
                       "); it must begin at ", begin, " and hold whole tiles of ",
                       trace.tile_elements);
  }
  if (slice.update_lane != Lane::kCompute && slice.update_lane != Lane::kCpu) {
    return LayoutError(name, " is updated in lane ", Name(slice.update_lane));
  }
  const bool immediate = slice.mode == UpdateMode::kImmediate;
  if (immediate && trace.updates_wait_for_norm) {
    return LayoutError(name, " is updated immediately, but updates wait for the norm");
  }
  const StateFormat& format = trace.format;
  const int64_t n = slice.elements();
  STRATA_RETURN_IF_ERROR(CheckExtent(name + " state", slice.state, n * format.state));
  STRATA_RETURN_IF_ERROR(CheckExtent(name + " gradient", slice.gradient,
                                     immediate ? 0 : n * format.gradient));
  return CheckExtent(name + " speculated", slice.speculated,
                     slice.mode == UpdateMode::kLagged ? n * format.weight : 0);
}

absl::Status CheckPlacement(const StepTrace& trace, const Layout& layout,
                            int32_t layer) {
  const LayerTrace& l = trace.layers[layer];
  const LayerPlacement& placement = layout.layers[layer];
  STRATA_RETURN_IF_ERROR(CheckExtent(l.name + " weights", placement.weights,
                                     l.total_elements * trace.format.weight));
  int64_t covered = 0;
  for (size_t s = 0; s < placement.slices.size(); ++s) {
    STRATA_RETURN_IF_ERROR(CheckSlice(trace, absl::StrCat(l.name, " slice ", s),
                                      placement.slices[s], covered));
    covered = placement.slices[s].end;
  }
  if (covered != l.trainable_elements) {
    return LayoutError(l.name, ": slices cover ", covered, " of ", l.trainable_elements,
                       " trainable elements");
  }
  return absl::OkStatus();
}

absl::Status CheckHomes(const PlanSet& set) {
  std::vector<NamedExtent> homes = Homes(set.trace, set.layout);
  std::sort(homes.begin(), homes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.extent.tier, a.extent.offset) <
           std::pair(b.extent.tier, b.extent.offset);
  });
  const NamedExtent* before = nullptr;
  for (const NamedExtent& home : homes) {
    const Extent& e = home.extent;
    if (e.offset < 0 || e.offset > set.arena_bytes[e.tier] - e.size_bytes) {
      return LayoutError(home.name, " at ", RangeName(e.tier, e.offset, e.size_bytes),
                         " leaves the arena of ", set.arena_bytes[e.tier], " bytes");
    }
    if (before != nullptr && before->extent.tier == e.tier &&
        before->extent.offset + before->extent.size_bytes > e.offset) {
      return LayoutError("the homes of ", before->name, " and ", home.name,
                         " overlap at ", RangeName(e.tier, e.offset, e.size_bytes));
    }
    before = &home;
  }
  return absl::OkStatus();
}

absl::Status CheckBudgets(const TierBytes& arenas, const Budgets& budgets) {
  const TierBytes limits{budgets.device_bytes, budgets.host_bytes, budgets.nvme_bytes};
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    if (arenas[tier] < 0 || arenas[tier] > limits[tier]) {
      return LayoutError("the ", Name(tier), " arena of ", arenas[tier],
                         " bytes exceeds its budget of ", limits[tier]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<NamedExtent> Homes(const StepTrace& trace, const Layout& layout) {
  std::vector<NamedExtent> homes;
  const auto add = [&](std::string name, const Extent& extent) {
    if (extent.size_bytes > 0) homes.push_back({std::move(name), extent});
  };
  add("constants", layout.constants);
  add("inputs_host", layout.inputs_host);
  add("tile_sums", layout.tile_sums);
  add("tile_sums_host", layout.tile_sums_host);
  add("losses", layout.losses);
  add("losses_host", layout.losses_host);
  add("flags", layout.flags);
  add("flags_host", layout.flags_host);
  add("flags_cpu", layout.flags_cpu);
  for (int32_t l = 0; l < trace.layer_count(); ++l) {
    const std::string& name = trace.layers[l].name;
    add(name + "/weight", layout.layers[l].weights);
    for (size_t s = 0; s < layout.layers[l].slices.size(); ++s) {
      const SliceLayout& slice = layout.layers[l].slices[s];
      add(absl::StrCat(name, "/state[", s, "]"), slice.state);
      add(absl::StrCat(name, "/gradient[", s, "]"), slice.gradient);
      add(absl::StrCat(name, "/speculated[", s, "]"), slice.speculated);
    }
  }
  return homes;
}

absl::Status CheckLayout(const PlanSet& set, const Budgets& budgets) {
  STRATA_RETURN_IF_ERROR(CheckBudgets(set.arena_bytes, budgets));
  if (set.layout.layers.size() != set.trace.layers.size()) {
    return LayoutError("it places ", set.layout.layers.size(),
                       " layers, the trace has ", set.trace.layers.size());
  }
  STRATA_RETURN_IF_ERROR(CheckFixedExtents(set.trace, set.layout));
  for (int32_t layer = 0; layer < set.trace.layer_count(); ++layer) {
    STRATA_RETURN_IF_ERROR(CheckPlacement(set.trace, set.layout, layer));
  }
  return CheckHomes(set);
}

}  // namespace strata::verifier
