// The part of StepWriter that runs the optimizer and moves its state.

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
  const Piece gradient_piece = PieceOf(Role::kGradient, layer, s, 0);
  const Piece speculated_piece = PieceOf(Role::kSpeculated, layer, s, 1);
  const auto new_weights = [&] {
    const Place home = At(slice.speculated);
    return home.tier == kDevice
               ? home
               : program_.New(kDevice, speculated_piece.size_bytes, Pool::kSpeculated);
  };
  const int32_t epoch = settles ? -1 : 0;
  Place weights = weights_[layer] + slice.begin * trace_.format.weight;
  const Place state = Fetch(PieceOf(Role::kState, layer, s, epoch), At(slice.state),
                            kDevice, Pool::kState);
  Place speculated;
  if (settles) {
    weights = Fetch(PieceOf(Role::kWeight, layer, s, -1), WeightHome(layer, s), kDevice,
                    Pool::kOldWeights);
    const Place old_gradient = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                                     At(slice.gradient), kDevice, Pool::kGradientIn);
    // A gradient at home on the device is where the new one is about to be.
    const bool in_place = IsHome(gradient, old_gradient);
    if (in_place || !key_.speculate) Update(layer, s, -1, weights, state, old_gradient);
    Reduce(layer, s, gradient);
    if (key_.speculate) speculated = new_weights();
    if (key_.speculate && !in_place) {
      Advance(layer, s, {weights, state, old_gradient, gradient, speculated}, false);
    } else if (key_.speculate) {
      Speculate(layer, s, weights, state, gradient, speculated);
    }
    PutBack(PieceOf(Role::kWeight, layer, s, 0), weights, WeightHome(layer, s));
    PutBack(PieceOf(Role::kState, layer, s, 0), state, At(slice.state));
  } else {
    Reduce(layer, s, gradient);
    speculated = new_weights();
    Speculate(layer, s, weights, state, gradient, speculated);
  }
  if (key_.speculate) PutBack(speculated_piece, speculated, At(slice.speculated));
  PutBack(gradient_piece, gradient, At(slice.gradient));
}

void StepWriter::FinishOnCpu(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const Piece piece = PieceOf(Role::kGradient, layer, s, 0);
  const bool speculates = slice.mode == UpdateMode::kLagged && key_.speculate;
  if (ReadsSpeculated(slice)) {
    speculates ? AdvanceOnCpu(layer, s, gradient) : SettleOnCpu(layer, s, gradient);
    return;
  }
  Reduce(layer, s, gradient);
  const bool immediate = slice.mode == UpdateMode::kImmediate;
  if (!immediate && !speculates) {
    PutBack(piece, gradient, At(slice.gradient));
    return;
  }
  const Place weights = Fetch(PieceOf(Role::kWeight, layer, s, 0), WeightHome(layer, s),
                              kHost, Pool::kStageIn);
  const Place state =
      Fetch(PieceOf(Role::kState, layer, s, 0), At(slice.state), kHost, Pool::kStageIn);
  // Where the gradient arrives: at its home, if that is in host memory.
  const bool at_home = !immediate && slice.gradient.tier == kHost;
  const Place arrived = at_home ? At(slice.gradient)
                                : program_.New(kHost, piece.size_bytes, Pool::kArrived);
  program_.Store(piece, gradient, arrived);
  if (immediate) {
    Update(layer, s, 0, weights, state, arrived);
    PutBack(PieceOf(Role::kWeight, layer, s, 1), weights, WeightHome(layer, s));
    PutBack(PieceOf(Role::kState, layer, s, 1), state, At(slice.state));
    return;
  }
  const Place speculated = NewSpeculatedOnCpu(layer, s);
  Speculate(layer, s, weights, state, arrived, speculated);
  PutBack(PieceOf(Role::kSpeculated, layer, s, 1), speculated, At(slice.speculated));
  PutBack(piece, arrived, At(slice.gradient));
}

Place StepWriter::NewSpeculatedOnCpu(int32_t layer, int32_t s) {
  const Place home = At(Slice(layer, s).speculated);
  if (home.tier == kHost) return home;
  return program_.New(kHost, PieceOf(Role::kSpeculated, layer, s, 1).size_bytes,
                      Pool::kStageOut);
}

// The last step's update without speculation of this one.
void StepWriter::SettleOnCpu(int32_t layer, int32_t s, Place gradient) {
  UpdatePendingOnCpu(layer, s);
  Reduce(layer, s, gradient);
  PutBack(PieceOf(Role::kGradient, layer, s, 0), gradient,
          At(Slice(layer, s).gradient));
}

// Memory is what the cpu lane is bound by: the last step's update and this step's
// speculation pass over the state together, and the new gradient, which arrives beside
// the old one, takes its place on the way.
void StepWriter::AdvanceOnCpu(int32_t layer, int32_t s, Place gradient) {
  const SliceLayout& slice = Slice(layer, s);
  const Piece piece = PieceOf(Role::kGradient, layer, s, 0);
  Reduce(layer, s, gradient);
  const Place weights = Fetch(PieceOf(Role::kWeight, layer, s, -1),
                              WeightHome(layer, s), kHost, Pool::kStageIn);
  const Place state = Fetch(PieceOf(Role::kState, layer, s, -1), At(slice.state), kHost,
                            Pool::kStageIn);
  const Place pending = Fetch(PieceOf(Role::kGradient, layer, s, -1),
                              At(slice.gradient), kHost, Pool::kStageIn);
  const Place arrived = program_.New(kHost, piece.size_bytes, Pool::kArrived);
  program_.Store(piece, gradient, arrived);
  const Place speculated = NewSpeculatedOnCpu(layer, s);
  Advance(layer, s, {weights, state, pending, arrived, speculated}, true);
  PutBack(PieceOf(Role::kWeight, layer, s, 0), weights, WeightHome(layer, s));
  PutBack(PieceOf(Role::kState, layer, s, 0), state, At(slice.state));
  PutBack(PieceOf(Role::kSpeculated, layer, s, 1), speculated, At(slice.speculated));
  PutBack(piece, pending, At(slice.gradient));
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
  ChangeFlags(op);
  program_.Do(std::move(op));
}

void StepWriter::Advance(int32_t layer, int32_t s, const AdvancePlaces& places,
                         bool keeps_gradient) {
  const SliceLayout& slice = Slice(layer, s);
  VirtualOp op{
      {.code = OpCode::kAdvance, .lane = slice.update_lane, .layer = layer, .slice = s},
      {}};
  const auto read = [&](Operand operand, Role role, Place place, int32_t epoch) {
    const Piece piece = PieceOf(role, layer, s, epoch);
    op.Read(operand, place, piece.size_bytes, piece.value, piece.value_offset);
  };
  const auto write = [&](Operand operand, Role role, Place place, int32_t epoch) {
    const Piece piece = PieceOf(role, layer, s, epoch);
    op.Write(operand, place, piece.size_bytes, piece.value, piece.value_offset);
  };
  read(Operand::kWeights, Role::kWeight, places.weights, -1);
  write(Operand::kWeights, Role::kWeight, places.weights, 0);
  read(Operand::kState, Role::kState, places.state, -1);
  write(Operand::kState, Role::kState, places.state, 0);
  read(Operand::kGradient, Role::kGradient, places.pending, -1);
  read(Operand::kNextGradient, Role::kGradient, places.gradient, 0);
  if (keeps_gradient) write(Operand::kGradient, Role::kGradient, places.pending, 0);
  write(Operand::kSpeculated, Role::kSpeculated, places.speculated, 1);
  ChangeFlags(op);
  program_.Do(std::move(op));
}

void StepWriter::ChangeFlags(VirtualOp& op) const {
  const int64_t offset = 8 * int64_t{op.op.layer};
  const Extent& flags = op.op.lane == Lane::kCpu ? layout_.flags_cpu : layout_.flags;
  op.Read(Operand::kFlags, At(flags) + offset, 8, {Role::kFlags, 0, 0}, offset);
  op.Write(Operand::kFlags, At(flags) + offset, 8, {Role::kFlags, 0, 0}, offset);
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
