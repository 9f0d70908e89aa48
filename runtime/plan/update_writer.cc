// The part of StepWriter that moves weights, accumulators and optimizer state.

#include "runtime/base/status.h"
#include "runtime/plan/step_writer.h"

namespace strata {
namespace {

constexpr TierKind kDevice = TierKind::kDevice;
constexpr TierKind kHost = TierKind::kHost;

bool IsHome(Place place, Place home) {
  return place.tier == home.tier && place.buffer == home.buffer &&
         place.offset == home.offset;
}

}  // namespace

bool StepWriter::IsPending(const SliceLayout& slice) const {
  return key_.start != Border::kSettled && slice.mode != UpdateMode::kImmediate;
}

bool StepWriter::ReadsSpeculated(const SliceLayout& slice) const {
  return key_.kind == PlanKind::kTrain && key_.start == Border::kPending &&
         slice.mode == UpdateMode::kLagged;
}

int32_t StepWriter::SharedOwner(int32_t layer) const {
  const int32_t owner = trace_.layers[layer].shared_layer;
  return owner >= 0 && HasAccumulator(owner) ? owner : -1;
}

Piece StepWriter::PieceOf(Role role, int32_t layer, int32_t slice,
                          int32_t epoch) const {
  const SliceLayout& s = Slice(layer, slice);
  const int64_t unit = role == Role::kState      ? trace_.format.state
                       : role == Role::kGradient ? trace_.format.gradient
                                                 : trace_.format.weight;
  return {{role, layer, epoch}, s.begin * unit, s.elements() * unit, slice, -1};
}

Place StepWriter::WeightHome(int32_t layer, int32_t slice) const {
  return At(layout_.layers[layer].weights) +
         Slice(layer, slice).begin * trace_.format.weight;
}

Place StepWriter::Fetch(const Piece& piece, Place home, TierKind tier, Pool pool) {
  if (home.tier == tier) return home;
  const Place place = program_.New(tier, piece.size_bytes, pool);
  program_.Load(piece, home, place);
  return place;
}

void StepWriter::PutBack(const Piece& piece, Place source, Place home) {
  if (!IsHome(source, home)) program_.Store(piece, source, home);
}

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

// ---- The optimizer

void StepWriter::UpdatePending(int32_t layer, int32_t s, Place weights) {
  const SliceLayout& slice = Slice(layer, s);
  const Place home = WeightHome(layer, s);
  if (!IsHome(weights, home))
    program_.Load(PieceOf(Role::kWeight, layer, s, -1), home, weights);
  const Place state = Fetch(PieceOf(Role::kState, layer, s, -1), At(slice.state),
                            kDevice, Pool::kState);
  const Place gradient = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                               At(slice.gradient), kDevice, Pool::kGradientIn);
  Update(layer, s, -1, weights, state, gradient);
  PutBack(PieceOf(Role::kWeight, layer, s, 0), weights, home);
  PutBack(PieceOf(Role::kState, layer, s, 0), state, At(slice.state));
}

void StepWriter::UpdatePendingOnCpu(int32_t layer, int32_t s) {
  const SliceLayout& slice = Slice(layer, s);
  const Place weights = Fetch(PieceOf(Role::kWeight, layer, s, -1),
                              WeightHome(layer, s), kHost, Pool::kStageIn);
  const Place state = Fetch(PieceOf(Role::kState, layer, s, -1), At(slice.state), kHost,
                            Pool::kStageIn);
  const Place gradient = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                               At(slice.gradient), kHost, Pool::kStageIn);
  Update(layer, s, -1, weights, state, gradient);
  PutBack(PieceOf(Role::kWeight, layer, s, 0), weights, WeightHome(layer, s));
  PutBack(PieceOf(Role::kState, layer, s, 0), state, At(slice.state));
}

void StepWriter::FinishSlice(int32_t layer, int32_t s) {
  const SliceLayout& slice = Slice(layer, s);
  const Piece piece = PieceOf(Role::kGradient, layer, s, 0);
  const bool at_home =
      slice.mode != UpdateMode::kImmediate && slice.gradient.tier == kDevice;
  const Place gradient =
      at_home ? At(slice.gradient)
              : program_.New(kDevice, piece.size_bytes, Pool::kGradientOut);
  const bool settles = ReadsSpeculated(slice);
  if (slice.update_lane == Lane::kCpu) {
    FinishOnCpu(layer, s, gradient);
  } else if (slice.mode == UpdateMode::kImmediate) {
    FinishImmediate(layer, s, gradient);
  } else if (slice.mode == UpdateMode::kLagged && (settles || key_.speculate)) {
    FinishLagged(layer, s, gradient);
  } else {
    Reduce(layer, s, gradient);
    PutBack(piece, gradient, At(slice.gradient));
  }
}

void StepWriter::FinishImmediate(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const Place weights = weights_[layer] + slice.begin * trace_.format.weight;
  const Place state =
      Fetch(PieceOf(Role::kState, layer, s, 0), At(slice.state), kDevice, Pool::kState);
  Reduce(layer, s, gradient);
  Update(layer, s, 0, weights, state, gradient);
  PutBack(PieceOf(Role::kWeight, layer, s, 1), weights, WeightHome(layer, s));
  PutBack(PieceOf(Role::kState, layer, s, 1), state, At(slice.state));
}

void StepWriter::FinishLagged(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const bool settles = ReadsSpeculated(slice);
  const int32_t epoch = settles ? -1 : 0;
  Place weights = weights_[layer] + slice.begin * trace_.format.weight;
  const Place state = Fetch(PieceOf(Role::kState, layer, s, epoch), At(slice.state),
                            kDevice, Pool::kState);
  if (settles) {
    weights = Fetch(PieceOf(Role::kWeight, layer, s, -1), WeightHome(layer, s), kDevice,
                    Pool::kOldWeights);
    const Place old_gradient = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                                     At(slice.gradient), kDevice, Pool::kGradientIn);
    Update(layer, s, -1, weights, state, old_gradient);
    PutBack(PieceOf(Role::kWeight, layer, s, 0), weights, WeightHome(layer, s));
  }
  Reduce(layer, s, gradient);
  if (key_.speculate) {
    const Piece piece = PieceOf(Role::kSpeculated, layer, s, 1);
    const Place home = At(slice.speculated);
    const Place speculated =
        home.tier == kDevice
            ? home
            : program_.New(kDevice, piece.size_bytes, Pool::kSpeculated);
    Speculate(layer, s, weights, state, gradient, speculated);
    PutBack(piece, speculated, home);
  }
  if (settles) PutBack(PieceOf(Role::kState, layer, s, 0), state, At(slice.state));
  PutBack(PieceOf(Role::kGradient, layer, s, 0), gradient, At(slice.gradient));
}

bool StepWriter::SettlesEarly(int32_t layer, int32_t s) const {
  const SliceLayout& slice = Slice(layer, s);
  return slice.update_lane == Lane::kCpu && ReadsSpeculated(slice) &&
         WeightHome(layer, s).tier == kHost && slice.state.tier == kHost &&
         slice.gradient.tier == kHost;
}

// The last step's update needs nothing of this backward: the cpu lane does it while the
// layer computes, in place, and the new gradient then goes straight to its home.
void StepWriter::SettleOnCpu(int32_t layer) {
  for (int32_t s = 0; s < SliceCount(layer); ++s) {
    if (!SettlesEarly(layer, s)) continue;
    program_.BeginItem();
    UpdatePendingOnCpu(layer, s);
  }
}

void StepWriter::FinishOnCpu(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const bool settles = ReadsSpeculated(slice) && !SettlesEarly(layer, s);
  const bool immediate = slice.mode == UpdateMode::kImmediate;
  const bool speculates = slice.mode == UpdateMode::kLagged && key_.speculate;
  const Piece gradient_piece = PieceOf(Role::kGradient, layer, s, 0);
  Reduce(layer, s, gradient);
  if (!immediate && !settles && !speculates) {
    PutBack(gradient_piece, gradient, At(slice.gradient));
    return;
  }
  const int32_t epoch = settles ? -1 : 0;
  const Place weights = Fetch(PieceOf(Role::kWeight, layer, s, epoch),
                              WeightHome(layer, s), kHost, Pool::kStageIn);
  const Place state = Fetch(PieceOf(Role::kState, layer, s, epoch), At(slice.state),
                            kHost, Pool::kStageIn);
  if (settles) {
    const Place old_gradient = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                                     At(slice.gradient), kHost, Pool::kStageIn);
    Update(layer, s, -1, weights, state, old_gradient);
  }
  // Where the new gradient arrives: at its home, if that is in host memory.
  const bool at_home = !immediate && slice.gradient.tier == kHost;
  const Place arrived =
      at_home ? At(slice.gradient)
              : program_.New(kHost, gradient_piece.size_bytes, Pool::kStageOut);
  program_.Store(gradient_piece, gradient, arrived);
  if (immediate) {
    Update(layer, s, 0, weights, state, arrived);
  } else if (speculates) {
    const Piece piece = PieceOf(Role::kSpeculated, layer, s, 1);
    const Place home = At(slice.speculated);
    const Place speculated =
        home.tier == kHost ? home
                           : program_.New(kHost, piece.size_bytes, Pool::kStageOut);
    Speculate(layer, s, weights, state, arrived, speculated);
    PutBack(piece, speculated, home);
  }
  if (!immediate) PutBack(gradient_piece, arrived, At(slice.gradient));
  if (immediate || settles) {
    PutBack(PieceOf(Role::kWeight, layer, s, epoch + 1), weights, WeightHome(layer, s));
    PutBack(PieceOf(Role::kState, layer, s, epoch + 1), state, At(slice.state));
  }
}

void StepWriter::Reduce(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const int64_t offset = slice.begin * kAccumulatorBytes;
  const int64_t size_bytes = slice.elements() * kAccumulatorBytes;
  VirtualOp op{
      {.code = OpCode::kReduce, .lane = Lane::kCompute, .layer = layer, .slice = s},
      {}};
  op.Read(Operand::kAccumulator, accumulators_[layer] + offset, size_bytes,
          {Role::kAccumulator, layer, key_.micro_batches}, offset);
  if (trace_.Sharer(layer) >= 0) {
    op.Read(Operand::kSharedAccumulator, shared_accumulators_[layer] + offset,
            size_bytes, {Role::kSharedAccumulator, layer, key_.micro_batches}, offset);
  }
  const Piece piece = PieceOf(Role::kGradient, layer, s, 0);
  op.Write(Operand::kGradient, gradient, piece.size_bytes, piece.value,
           piece.value_offset);
  const int64_t tiles_offset =
      4 * (trace_.FirstTile(layer) + slice.begin / trace_.tile_elements);
  op.Write(Operand::kTileSums, At(layout_.tile_sums) + tiles_offset,
           4 * (slice.elements() / trace_.tile_elements), {Role::kTileSums, 0, 0},
           tiles_offset);
  program_.Do(std::move(op));
}

void StepWriter::Update(int32_t layer, int32_t s, int32_t epoch, Place weights,
                        Place state, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  VirtualOp op{
      {.code = OpCode::kUpdate, .lane = slice.update_lane, .layer = layer, .slice = s},
      {}};
  const auto change = [&](Operand operand, Role role, Place place) {
    const Piece before = PieceOf(role, layer, s, epoch);
    const Piece after = PieceOf(role, layer, s, epoch + 1);
    op.Read(operand, place, before.size_bytes, before.value, before.value_offset);
    op.Write(operand, place, after.size_bytes, after.value, after.value_offset);
  };
  change(Operand::kWeights, Role::kWeight, weights);
  change(Operand::kState, Role::kState, state);
  const Piece piece = PieceOf(Role::kGradient, layer, s, epoch);
  op.Read(Operand::kGradient, gradient, piece.size_bytes, piece.value,
          piece.value_offset);
  const Extent& flags =
      slice.update_lane == Lane::kCpu ? layout_.flags_cpu : layout_.flags;
  op.Read(Operand::kFlags, At(flags) + 8 * layer, 8, {Role::kFlags, 0, 0}, 8 * layer);
  op.Write(Operand::kFlags, At(flags) + 8 * layer, 8, {Role::kFlags, 0, 0}, 8 * layer);
  program_.Do(std::move(op));
}

void StepWriter::Speculate(int32_t layer, int32_t s, Place weights, Place state,
                           Place gradient, Place speculated) {
  const SliceLayout& slice = Slice(layer, s);
  VirtualOp op{{.code = OpCode::kSpeculate,
                .lane = slice.update_lane,
                .layer = layer,
                .slice = s},
               {}};
  const auto read = [&](Operand operand, Role role, Place place) {
    const Piece piece = PieceOf(role, layer, s, 0);
    op.Read(operand, place, piece.size_bytes, piece.value, piece.value_offset);
  };
  read(Operand::kWeights, Role::kWeight, weights);
  read(Operand::kState, Role::kState, state);
  read(Operand::kGradient, Role::kGradient, gradient);
  const Piece piece = PieceOf(Role::kSpeculated, layer, s, 1);
  op.Write(Operand::kSpeculated, speculated, piece.size_bytes, piece.value,
           piece.value_offset);
  program_.Do(std::move(op));
}

void StepWriter::WriteFlush() {
  for (int32_t l = 0; l < trace_.layer_count(); ++l) {
    for (int32_t s = 0; s < SliceCount(l); ++s) {
      const SliceLayout& slice = Slice(l, s);
      if (!IsPending(slice)) continue;
      program_.BeginItem();
      if (slice.update_lane == Lane::kCpu) {
        UpdatePendingOnCpu(l, s);
      } else {
        const Place home = WeightHome(l, s);
        UpdatePending(
            l, s,
            home.tier == kDevice
                ? home
                : program_.New(kDevice, PieceOf(Role::kWeight, l, s, -1).size_bytes,
                               Pool::kOldWeights));
      }
    }
  }
  WriteResults();
}

}  // namespace strata
