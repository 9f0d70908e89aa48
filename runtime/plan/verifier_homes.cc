#include "runtime/plan/verifier_homes.h"

#include "runtime/plan/verifier_error.h"
#include "runtime/plan/verifier_operands.h"

namespace strata::verifier {
namespace {

class ContentList {
 public:
  explicit ContentList(const PlanSet& set) : set_(set) {}

  void Add(const Extent& extent, Value value, int64_t value_offset = 0) {
    if (extent.size_bytes > 0) list_.push_back({extent, value, value_offset});
  }
  /// A slice's own extent, holding its part of a value that is laid out by element.
  void AddPart(const Extent& extent, const SliceLayout& slice, int64_t element_bytes,
               Role role, int32_t layer, int32_t index) {
    Add(extent, {role, layer, index}, PartOf(slice, element_bytes).offset);
  }
  void AddWeights(int32_t layer, const SliceLayout& slice, int32_t index) {
    const Part part = PartOf(slice, set_.trace.format.weight);
    const Extent& home = set_.layout.layers[layer].weights;
    Add({home.tier, home.offset + part.offset, part.size_bytes},
        {Role::kWeight, layer, index}, part.offset);
  }
  void AddFrozen() {
    const int64_t unit = set_.trace.format.weight;
    for (int32_t l = 0; l < set_.trace.layer_count(); ++l) {
      const Extent& home = set_.layout.layers[l].weights;
      const int64_t first = set_.trace.layers[l].trainable_elements * unit;
      Add({home.tier, home.offset + first, home.size_bytes - first},
          {Role::kWeight, l, 0}, first);
    }
    Add(set_.layout.constants, {Role::kConstants, 0, 0});
  }
  void AddInputs(int32_t micro_batches) {
    const int64_t size_bytes = set_.trace.input_bytes;
    const Extent& home = set_.layout.inputs_host;
    for (int32_t m = 0; m < micro_batches; ++m) {
      Add({home.tier, home.offset + m * size_bytes, size_bytes}, {Role::kInputs, 0, m});
    }
  }
  template <typename Visit>
  void ForEachSlice(const Visit& visit) const {
    for (int32_t l = 0; l < set_.trace.layer_count(); ++l) {
      for (const SliceLayout& slice : set_.layout.layers[l].slices) visit(l, slice);
    }
  }
  std::vector<HomeContent> Take() && { return std::move(list_); }

 private:
  const PlanSet& set_;
  std::vector<HomeContent> list_;
};

// What is left of a slice when a step that trained it ends.
void AddTrained(const PlanSet& set, const PlanKey& key, int32_t l,
                const SliceLayout& slice, ContentList& list) {
  const StateFormat& format = set.trace.format;
  const int32_t applied = slice.mode == UpdateMode::kImmediate ? 1 : 0;
  list.AddWeights(l, slice, applied);
  list.AddPart(slice.state, slice, format.state, Role::kState, l, applied);
  list.AddPart(slice.gradient, slice, format.gradient, Role::kGradient, l, 0);
  if (key.speculate) {
    list.AddPart(slice.speculated, slice, format.weight, Role::kSpeculated, l, 1);
  }
}

}  // namespace

std::vector<HomeContent> StartOf(const PlanSet& set, const PlanKey& key) {
  const StateFormat& format = set.trace.format;
  ContentList list(set);
  list.ForEachSlice([&](int32_t l, const SliceLayout& slice) {
    const int32_t applied = StartsPending(key, slice) ? -1 : 0;
    list.AddWeights(l, slice, applied);
    list.AddPart(slice.state, slice, format.state, Role::kState, l, applied);
    if (applied == -1) {
      list.AddPart(slice.gradient, slice, format.gradient, Role::kGradient, l, -1);
    }
    if (StartsSpeculated(key, slice)) {
      list.AddPart(slice.speculated, slice, format.weight, Role::kSpeculated, l, 0);
    }
  });
  list.AddFrozen();
  if (key.kind != PlanKind::kFlush) list.AddInputs(key.micro_batches);
  for (const Extent& flags :
       {set.layout.flags, set.layout.flags_host, set.layout.flags_cpu}) {
    list.Add(flags, {Role::kFlags, 0, 0});
  }
  return std::move(list).Take();
}

std::vector<HomeContent> EndOf(const PlanSet& set, const PlanKey& key) {
  const StateFormat& format = set.trace.format;
  ContentList list(set);
  list.ForEachSlice([&](int32_t l, const SliceLayout& slice) {
    if (key.kind == PlanKind::kTrain) {
      AddTrained(set, key, l, slice, list);
    } else {
      list.AddWeights(l, slice, 0);
      list.AddPart(slice.state, slice, format.state, Role::kState, l, 0);
    }
  });
  list.AddFrozen();
  if (key.kind == PlanKind::kTrain) {
    list.Add(set.layout.tile_sums_host, {Role::kTileSums, 0, 0});
  }
  const int32_t last = set.trace.layer_count() - 1;
  for (int32_t m = 0; key.kind != PlanKind::kFlush && m < key.micro_batches; ++m) {
    const Extent& home = set.layout.losses_host;
    list.Add({home.tier, home.offset + 8 * m, 8}, {Role::kLoss, last, m});
  }
  for (const Extent& flags : {set.layout.flags, set.layout.flags_host}) {
    list.Add(flags, {Role::kFlags, 0, 0});
  }
  return std::move(list).Take();
}

absl::Status CheckHandOver(const PlanSet& set, const Plan& first, const Plan& second) {
  const bool trained = first.key.kind == PlanKind::kTrain;
  bool any_pending = false, any_applied = false;
  absl::Status status;
  ContentList(set).ForEachSlice([&](int32_t, const SliceLayout& slice) {
    const bool pending = trained && slice.mode != UpdateMode::kImmediate;
    any_pending |= pending;
    any_applied |= trained && !pending;
    if (StartsPending(second.key, slice) && !pending) {
      status =
          PlanError(second, "counts on a pending step, but nothing is pending after ",
                    ToString(first.key));
    } else if (StartsSpeculated(second.key, slice) && !first.key.speculate) {
      status = PlanError(second, "counts on weights that ", ToString(first.key),
                         " does not speculate");
    }
  });
  if (second.key.start == Border::kSettled && any_pending && any_applied) {
    return PlanError(second, "counts on a skip of ", ToString(first.key),
                     ", which has updated some slices already");
  }
  return status;
}

std::vector<HomeContent> Untouchable(const PlanSet& set) {
  ContentList list(set);
  list.AddFrozen();
  list.AddInputs(set.trace.micro_batches);
  return std::move(list).Take();
}

}  // namespace strata::verifier
