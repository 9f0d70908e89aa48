#include "runtime/plan/step_writer.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr TierKind kDevice = TierKind::kDevice;

}  // namespace

StepWriter::StepWriter(const StepTrace& trace, const Decisions& decisions,
                       const Layout& layout, const PlanKey& key)
    : trace_(trace),
      decisions_(decisions),
      layout_(layout),
      key_(key),
      groups_(std::clamp(decisions.groups, 1, key.micro_batches)),
      lowest_(trace.LowestTrainable()) {
  const size_t layers = trace.layers.size();
  weights_.resize(layers);
  weights_held_.resize(layers, false);
  accumulators_.resize(layers);
  shared_accumulators_.resize(layers);
  settled_.resize(layers, false);
  brought_.resize(layers);
  accumulator_homes_.resize(layers);
  shared_accumulator_homes_.resize(layers);
  activation_homes_.resize(layers,
                           std::vector<Place>(static_cast<size_t>(key.micro_batches)));
  gradient_homes_ = activation_homes_;
  passed_values_.resize(static_cast<size_t>(key.micro_batches));
  passed_.resize(static_cast<size_t>(key.micro_batches));
  // The first layer (an embedding computes next to nothing) joins the first segment.
  for (int32_t begin = 0; begin < head();) {
    const int32_t size = decisions.segment_layers + (begin == 0 ? 1 : 0);
    segments_.push_back({begin, std::min(begin + size, head())});
    begin = segments_.back().end;
  }
}

Program StepWriter::Write() && {
  switch (key_.kind) {
    case PlanKind::kTrain:
      WriteTrain();
      break;
    case PlanKind::kEvaluate:
      WriteEvaluate();
      break;
    case PlanKind::kFlush:
      WriteFlush();
      break;
  }
  return std::move(program_);
}

int32_t StepWriter::GroupBegin(int32_t group) const {
  return static_cast<int32_t>(int64_t{key_.micro_batches} * group / groups_);
}

void StepWriter::LoadInputs() {
  program_.BeginItem();
  inputs_ =
      program_.New(kDevice, key_.micro_batches * trace_.input_bytes, Pool::kUnbounded);
  for (int32_t m = 0; m < key_.micro_batches; ++m) {
    const Piece piece{{Role::kInputs, 0, m}, 0, trace_.input_bytes, -1, m};
    program_.Load(piece, At(layout_.inputs_host) + m * trace_.input_bytes,
                  inputs_ + m * trace_.input_bytes);
  }
}

void StepWriter::WriteTrain() {
  LoadInputs();
  for (group_ = 0; group_ < groups_; ++group_) {
    for (size_t i = 0; i < segments_.size(); ++i) ForwardSegment(i);
    HeadBackward();
    for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
      if (segment->end > lowest_) BackwardSegment(*segment);
    }
    DoSome(1);
  }
  WriteResults();
}

void StepWriter::WriteEvaluate() {
  LoadInputs();
  for (group_ = 0; group_ < groups_; ++group_) {
    for (size_t i = 0; i < segments_.size(); ++i) ForwardSegment(i);
    HeadForward();
  }
  WriteResults();
}

// What `write` writes is an item of its own: now, or between two micro-batches that
// follow.
void StepWriter::DoLater(std::function<void()> write) {
  later_.push_back(std::move(write));
  if (!decisions_.updates_between) DoSome(1);
}

// An even share of what waits, if there are so many turns.
void StepWriter::DoSome(int32_t turns_left) {
  const size_t turns = static_cast<size_t>(std::max(turns_left, 1));
  for (size_t count = (later_.size() + turns - 1) / turns; count > 0; --count) {
    const std::function<void()> write = std::move(later_.front());
    later_.pop_front();
    program_.BeginItem();
    write();
  }
}

// The updates before the segment's forward (the head's, behind the last) may stand in
// the segment before, for as many layers as have room for their weights.
void StepWriter::SettleAhead(size_t segment) {
  if (!decisions_.updates_between) return;
  const int32_t begin = segment < segments_.size() ? segments_[segment].begin : head();
  const int32_t end = segment < segments_.size() ? segments_[segment].end : head() + 1;
  for (int32_t l = begin; l < std::min(end, begin + decisions_.weight_slots - 1); ++l) {
    if (!weights_held_[l] && !settled_[l]) SettleWeights(l);
  }
}

void StepWriter::ForwardSegment(size_t index) {
  const Segment& segment = segments_[index];
  HoldOnly(segment.begin, segment.end);
  for (int32_t l = segment.begin; l < segment.end; ++l) AcquireWeights(l);
  SettleAhead(index + 1);
  for (int32_t m = GroupBegin(group_); m < GroupBegin(group_ + 1); ++m) {
    program_.BeginItem();
    Place input = segment.begin == 0
                      ? Place()
                      : LoadActivation(Role::kActivation, segment.begin - 1, m);
    for (int32_t l = segment.begin; l < segment.end; ++l) {
      const bool border = l + 1 == segment.end;
      const Place output =
          border ? OutputPlace(Role::kActivation, l, m)
                 : program_.New(kDevice, trace_.layers[l].output_bytes, Pool::kCompute);
      Forward(l, m, input, &output, NewSaved(l), /*recompute=*/false);
      if (border) StoreActivation(Role::kActivation, l, m, output);
      input = output;
    }
    DoSome(GroupBegin(group_ + 1) - m);
  }
}

void StepWriter::HeadForward() {
  AcquireWeights(head());
  AcquireShared(head());
  for (int32_t m = GroupBegin(group_); m < GroupBegin(group_ + 1); ++m) {
    program_.BeginItem();
    const Place input = LoadActivation(Role::kActivation, head() - 1, m);
    Forward(head(), m, input, nullptr, Place(), /*recompute=*/false);
  }
}

void StepWriter::HeadBackward() {
  AcquireWeights(head());
  AcquireShared(head());
  program_.BeginItem();
  StartAccumulators(head());
  for (int32_t m = GroupBegin(group_); m < GroupBegin(group_ + 1); ++m) {
    program_.BeginItem();
    const Place input = LoadActivation(Role::kActivation, head() - 1, m);
    BackwardLayer(head(), m, input, Place(), Place(), head() - 1);
  }
  EndAccumulators(head());
}

void StepWriter::BackwardSegment(const Segment& segment) {
  HoldOnly(segment.begin, segment.end);
  for (int32_t l = segment.begin; l < segment.end; ++l) {
    if (l >= lowest_ || NeedsRecompute(segment, l)) AcquireWeights(l);
  }
  program_.BeginItem();
  for (int32_t l = std::max(segment.begin, lowest_); l < segment.end; ++l)
    StartAccumulators(l);
  for (int32_t m = GroupBegin(group_); m < GroupBegin(group_ + 1); ++m) {
    program_.BeginItem();
    BackwardMicroBatch(segment, m);
    DoSome(GroupBegin(group_ + 1) - m);
  }
  for (int32_t l = segment.end - 1; l >= std::max(segment.begin, lowest_); --l) {
    EndAccumulators(l);
  }
}

bool StepWriter::NeedsRecompute(const Segment& segment, int32_t layer) const {
  // Its output is read by a layer above it in the segment, or its backward reads
  // `saved`.
  return (layer + 1 < segment.end && segment.end > lowest_) ||
         (layer >= lowest_ && trace_.layers[layer].saved_bytes > 0);
}

void StepWriter::BackwardMicroBatch(const Segment& segment, int32_t m) {
  const size_t count = static_cast<size_t>(segment.end - segment.begin);
  std::vector<Place> inputs(count), saved(count);
  if (segment.begin > 0)
    inputs[0] = LoadActivation(Role::kActivation, segment.begin - 1, m);
  for (int32_t l = segment.begin; l < segment.end; ++l) {
    const size_t i = static_cast<size_t>(l - segment.begin);
    if (!NeedsRecompute(segment, l)) continue;
    saved[i] = NewSaved(l);
    if (l + 1 < segment.end) {
      inputs[i + 1] =
          program_.New(kDevice, trace_.layers[l].output_bytes, Pool::kCompute);
      Forward(l, m, inputs[i], &inputs[i + 1], saved[i], /*recompute=*/true);
    } else {
      Forward(l, m, inputs[i], nullptr, saved[i], /*recompute=*/true);
    }
  }
  Place gradient = LoadActivation(Role::kActivationGradient, segment.end - 1, m);
  for (int32_t l = segment.end - 1; l >= std::max(segment.begin, lowest_); --l) {
    const size_t i = static_cast<size_t>(l - segment.begin);
    gradient = BackwardLayer(l, m, inputs[i], saved[i], gradient,
                             l == segment.begin ? l - 1 : -1);
  }
}

Place StepWriter::BackwardLayer(int32_t layer, int32_t m, Place input, Place saved,
                                Place output_gradient, int32_t border) {
  const bool wanted = layer > lowest_;
  Place input_gradient;
  if (wanted) {
    input_gradient = border >= 0
                         ? OutputPlace(Role::kActivationGradient, border, m)
                         : program_.New(kDevice, trace_.layers[layer - 1].output_bytes,
                                        Pool::kCompute);
  }
  Backward(layer, m, input, saved, output_gradient, wanted ? &input_gradient : nullptr);
  if (wanted && border >= 0) {
    StoreActivation(Role::kActivationGradient, border, m, input_gradient);
  }
  return input_gradient;
}

void StepWriter::WriteResults() {
  program_.BeginItem();
  if (key_.kind == PlanKind::kTrain) {
    program_.Store({{Role::kTileSums, 0, 0}, 0, layout_.tile_sums.size_bytes},
                   At(layout_.tile_sums), At(layout_.tile_sums_host));
  }
  if (key_.kind != PlanKind::kFlush) {
    for (int32_t m = 0; m < key_.micro_batches; ++m) {
      program_.Store({{Role::kLoss, head(), m}, 0, 8, -1, m},
                     At(layout_.losses) + 8 * m, At(layout_.losses_host) + 8 * m);
    }
  }
  program_.Store({{Role::kFlags, 0, 0}, 0, layout_.flags.size_bytes}, At(layout_.flags),
                 At(layout_.flags_host));
}

Place StepWriter::NewSaved(int32_t layer) {
  const int64_t size_bytes = trace_.layers[layer].saved_bytes;
  return size_bytes > 0 ? program_.New(kDevice, size_bytes, Pool::kCompute) : Place();
}

VirtualOp StepWriter::Compute(OpCode code, int32_t layer, int32_t m, Place input) {
  const LayerTrace& trace = trace_.layers[layer];
  VirtualOp op{{.code = code, .lane = Lane::kCompute, .layer = layer, .micro_batch = m},
               {}};
  op.Read(Operand::kWeights, weights_[layer],
          trace.total_elements * trace_.format.weight, {Role::kWeight, layer, 0});
  if (const int32_t owner = trace.shared_layer; owner >= 0) {
    op.Read(Operand::kSharedWeights, weights_[owner],
            trace_.layers[owner].total_elements * trace_.format.weight,
            {Role::kWeight, owner, 0});
  }
  if (trace_.constant_bytes > 0) {
    op.Read(Operand::kConstants, At(layout_.constants), trace_.constant_bytes,
            {Role::kConstants, 0, 0});
  }
  // Every layer: positions and documents are inputs, too.
  op.Read(Operand::kInputs, inputs_ + m * trace_.input_bytes, trace_.input_bytes,
          {Role::kInputs, 0, m});
  if (layer > 0) {
    op.Read(Operand::kInput, input, trace_.layers[layer - 1].output_bytes,
            {Role::kActivation, layer - 1, m});
  }
  const int64_t workspace = code == OpCode::kForward ? trace.forward_workspace_bytes
                                                     : trace.backward_workspace_bytes;
  if (workspace > 0) {
    op.Write(Operand::kWorkspace, program_.New(kDevice, workspace, Pool::kCompute),
             workspace, {Role::kScratch, 0, 0});
  }
  return op;
}

void StepWriter::Forward(int32_t layer, int32_t m, Place input, const Place* output,
                         Place saved, bool recompute) {
  const LayerTrace& trace = trace_.layers[layer];
  VirtualOp op = Compute(OpCode::kForward, layer, m, input);
  op.op.recompute = recompute;
  if (output != nullptr) {
    op.Write(Operand::kOutput, *output, trace.output_bytes,
             {Role::kActivation, layer, m});
  }
  if (layer == head()) {
    op.Write(Operand::kLoss, At(layout_.losses) + 8 * m, 8, {Role::kLoss, layer, m});
  } else if (trace.saved_bytes > 0) {
    op.Write(Operand::kSaved, saved, trace.saved_bytes, {Role::kSaved, layer, m});
  }
  program_.Do(std::move(op));
}

void StepWriter::Backward(int32_t layer, int32_t m, Place input, Place saved,
                          Place output_gradient, const Place* input_gradient) {
  const LayerTrace& trace = trace_.layers[layer];
  VirtualOp op = Compute(OpCode::kBackward, layer, m, input);
  if (layer == head()) {
    op.Write(Operand::kLoss, At(layout_.losses) + 8 * m, 8, {Role::kLoss, layer, m});
  } else {
    if (trace.saved_bytes > 0) {
      op.Read(Operand::kSaved, saved, trace.saved_bytes, {Role::kSaved, layer, m});
    }
    op.Read(Operand::kOutputGradient, output_gradient, trace.output_bytes,
            {Role::kActivationGradient, layer, m});
  }
  if (input_gradient != nullptr) {
    op.Write(Operand::kInputGradient, *input_gradient,
             trace_.layers[layer - 1].output_bytes,
             {Role::kActivationGradient, layer - 1, m});
  }
  const auto accumulate = [&](Operand operand, Role role, int32_t owner, Place place) {
    const int64_t size_bytes =
        trace_.layers[owner].trainable_elements * kAccumulatorBytes;
    op.Read(operand, place, size_bytes, {role, owner, m});
    op.Write(operand, place, size_bytes, {role, owner, m + 1});
  };
  if (HasAccumulator(layer)) {
    accumulate(Operand::kAccumulator, Role::kAccumulator, layer, accumulators_[layer]);
  }
  if (const int32_t owner = SharedOwner(layer); owner >= 0) {
    accumulate(Operand::kSharedAccumulator, Role::kSharedAccumulator, owner,
               shared_accumulators_[owner]);
  }
  program_.Do(std::move(op));
}

Place& StepWriter::ActivationHome(Role role, int32_t layer, int32_t m) {
  Place& home =
      (role == Role::kActivation ? activation_homes_
                                 : gradient_homes_)[layer][static_cast<size_t>(m)];
  if (home.buffer >= 0) return home;
  // Off the device, a gradient takes the place of the activation that has been read for
  // the last time; on it, the two are operands of one operation.
  if (role == Role::kActivationGradient && decisions_.activations != kDevice &&
      activation_homes_[layer][static_cast<size_t>(m)].buffer >= 0) {
    return home = activation_homes_[layer][static_cast<size_t>(m)];
  }
  return home = program_.New(decisions_.activations, trace_.layers[layer].output_bytes,
                             Pool::kUnbounded);
}

Place StepWriter::OutputPlace(Role role, int32_t layer, int32_t m) {
  if (decisions_.activations == kDevice) return ActivationHome(role, layer, m);
  return program_.New(
      kDevice, trace_.layers[layer].output_bytes,
      decisions_.passes_activations ? Pool::kUnbounded : Pool::kActivationOut);
}

Place StepWriter::LoadActivation(Role role, int32_t layer, int32_t m) {
  const Value value{role, layer, m};
  if (decisions_.activations == kDevice) return ActivationHome(role, layer, m);
  if (passed_values_[static_cast<size_t>(m)] == value) {
    return passed_[static_cast<size_t>(m)];
  }
  const Place target =
      program_.New(kDevice, trace_.layers[layer].output_bytes, Pool::kActivationIn);
  program_.Load({value, 0, trace_.layers[layer].output_bytes, -1, m},
                ActivationHome(role, layer, m), target);
  return target;
}

void StepWriter::StoreActivation(Role role, int32_t layer, int32_t m, Place source) {
  if (decisions_.activations == kDevice) return;
  if (!decisions_.passes_activations) {  // only to the operation that comes next
    passed_values_.assign(passed_values_.size(), {});
  }
  const Value value{role, layer, m};
  passed_values_[static_cast<size_t>(m)] = value;
  passed_[static_cast<size_t>(m)] = source;
  // Handed on and read by nobody else: it need not be kept.
  const bool alone =
      decisions_.passes_activations || GroupBegin(group_ + 1) - GroupBegin(group_) == 1;
  const bool read_again = role == Role::kActivation && layer + 1 < head() &&
                          key_.kind == PlanKind::kTrain &&
                          segments_.back().end > lowest_;
  if (alone && !read_again) return;
  program_.Store({value, 0, trace_.layers[layer].output_bytes, -1, m}, source,
                 ActivationHome(role, layer, m));
}

}  // namespace strata
