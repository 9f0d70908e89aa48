// The part of StepWriter that holds weights and accumulators on the device.

#include "runtime/base/status.h"
#include "runtime/plan/step_writer.h"

namespace strata {
namespace {

constexpr TierKind kDevice = TierKind::kDevice;

}  // namespace

// ---- Weights

void StepWriter::HoldOnly(int32_t begin, int32_t end) {
  for (int32_t l = 0; l < trace_.layer_count(); ++l) {
    if (l < begin || l >= end) weights_held_[l] = false;
  }
}

void StepWriter::AcquireShared(int32_t layer) {
  if (const int32_t owner = trace_.layers[layer].shared_layer; owner >= 0) {
    AcquireWeights(owner);
  }
}

// Gives the layer its buffer and writes the updates that come before its forward.
void StepWriter::SettleWeights(int32_t layer) {
  const Place home = At(layout_.layers[layer].weights);
  const bool resident = home.tier == kDevice;
  weights_[layer] =
      resident
          ? home
          : program_.New(kDevice,
                         trace_.layers[layer].total_elements * trace_.format.weight,
                         Pool::kWeights);
  brought_[layer].assign(static_cast<size_t>(SliceCount(layer)), resident);
  const bool update = !settled_[layer];
  settled_[layer] = true;
  for (int32_t s = 0; update && s < SliceCount(layer); ++s) {
    const SliceLayout& slice = Slice(layer, s);
    if (!IsPending(slice) || ReadsSpeculated(slice)) continue;
    if (slice.update_lane == Lane::kCpu) {
      program_.BeginItem();
      UpdatePendingOnCpu(layer, s);
      continue;
    }
    brought_[layer][static_cast<size_t>(s)] = true;
    DoLater([this, layer, s] {
      UpdatePending(layer, s,
                    weights_[layer] + Slice(layer, s).begin * trace_.format.weight);
    });
  }
}

void StepWriter::AcquireWeights(int32_t layer) {
  if (weights_held_[layer]) return;
  weights_held_[layer] = true;
  if (brought_[layer].empty()) {
    const size_t waiting = later_.size();
    SettleWeights(layer);
    if (later_.size() > waiting) DoSome(1);
  }
  const LayerTrace& trace = trace_.layers[layer];
  const Place home = At(layout_.layers[layer].weights);
  const bool resident = home.tier == kDevice;
  program_.BeginItem();
  for (int32_t s = 0; s < SliceCount(layer); ++s) {
    if (brought_[layer][static_cast<size_t>(s)]) continue;
    const SliceLayout& slice = Slice(layer, s);
    const Place target = weights_[layer] + slice.begin * trace_.format.weight;
    if (ReadsSpeculated(slice)) {
      program_.Load(PieceOf(Role::kSpeculated, layer, s, 0), At(slice.speculated),
                    target);
    } else {
      program_.Load(PieceOf(Role::kWeight, layer, s, 0), WeightHome(layer, s), target);
    }
  }
  brought_[layer].clear();
  if (const int64_t first = trace.trainable_elements;
      !resident && first < trace.total_elements) {
    const int64_t unit = trace_.format.weight;
    program_.Load({{Role::kWeight, layer, 0},
                   first * unit,
                   (trace.total_elements - first) * unit},
                  home + first * unit, weights_[layer] + first * unit);
  }
}

// ---- Accumulators

void StepWriter::StartAccumulators(int32_t layer) {
  if (HasAccumulator(layer)) {
    accumulators_[layer] =
        StartAccumulator(Role::kAccumulator, layer, &accumulator_homes_[layer]);
  }
  if (const int32_t owner = SharedOwner(layer); owner >= 0) {
    shared_accumulators_[owner] = StartAccumulator(Role::kSharedAccumulator, owner,
                                                   &shared_accumulator_homes_[owner]);
  }
}

Place StepWriter::StartAccumulator(Role role, int32_t owner, Place* home) {
  if (group_ > 0) return LoadAccumulator(role, owner, group_, *home);
  const int64_t size_bytes =
      trace_.layers[owner].trainable_elements * kAccumulatorBytes;
  // What is needed again later keeps its place on the device, or gets a home in the
  // host.
  const bool kept = groups_ > 1 || role == Role::kSharedAccumulator;
  if (kept) *home = program_.New(decisions_.accumulators, size_bytes, Pool::kUnbounded);
  const Place place = kept && decisions_.accumulators == kDevice
                          ? *home
                          : program_.New(kDevice, size_bytes, Pool::kCompute);
  VirtualOp zero{{.code = OpCode::kZero, .lane = Lane::kCompute, .layer = owner}, {}};
  zero.Write(
      role == Role::kAccumulator ? Operand::kAccumulator : Operand::kSharedAccumulator,
      place, size_bytes, {role, owner, 0});
  program_.Do(std::move(zero));
  return place;
}

// To which the groups before `group` have added.
Place StepWriter::LoadAccumulator(Role role, int32_t owner, int32_t group, Place home) {
  const int64_t size_bytes =
      trace_.layers[owner].trainable_elements * kAccumulatorBytes;
  return Fetch({{role, owner, GroupBegin(group)}, 0, size_bytes}, home, kDevice,
               Pool::kAccumulatorMove);
}

void StepWriter::SaveAccumulator(Role role, int32_t owner, Place source, Place home) {
  const int64_t size_bytes =
      trace_.layers[owner].trainable_elements * kAccumulatorBytes;
  PutBack({{role, owner, GroupBegin(group_ + 1)}, 0, size_bytes}, source, home);
}

void StepWriter::EndAccumulators(int32_t layer) {
  const bool last_group = group_ + 1 == groups_;
  program_.BeginItem();
  if (const int32_t owner = SharedOwner(layer); owner >= 0) {
    SaveAccumulator(Role::kSharedAccumulator, owner, shared_accumulators_[owner],
                    shared_accumulator_homes_[owner]);
  }
  if (!HasAccumulator(layer)) return;
  if (!last_group) {
    SaveAccumulator(Role::kAccumulator, layer, accumulators_[layer],
                    accumulator_homes_[layer]);
    return;
  }
  if (trace_.Sharer(layer) >= 0) {
    DoLater([this, layer] {
      shared_accumulators_[layer] = LoadAccumulator(
          Role::kSharedAccumulator, layer, groups_, shared_accumulator_homes_[layer]);
    });
  }
  for (int32_t s = 0; s < SliceCount(layer); ++s) {
    DoLater([this, layer, s] { FinishSlice(layer, s); });
  }
}

}  // namespace strata
