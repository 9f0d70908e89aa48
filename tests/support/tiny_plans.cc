#include "tests/support/tiny_plans.h"

#include "runtime/base/status.h"
#include "tests/support/loose_plan.h"

namespace strata {
namespace {

constexpr TierKind kDevice = TierKind::kDevice, kHost = TierKind::kHost,
                   kNvme = TierKind::kNvme;
constexpr AccessMode kRead = AccessMode::kRead, kWrite = AccessMode::kWrite;
constexpr int64_t kBlock = 4096;  // of everything below: a multiple of it
constexpr int64_t kTile = 2048;   // elements; 2 blocks of weights, gradient or moments
constexpr int64_t kWeightBytes = 2 * kBlock, kStateBytes = 4 * kBlock;

StepTrace Trace() {
  StepTrace trace;
  trace.tile_elements = kTile;
  trace.format = {4, 8, 4};
  trace.input_bytes = kBlock;
  trace.constant_bytes = kBlock;
  trace.layers = {{.name = "body",
                   .trainable_elements = kTile,
                   .total_elements = kTile,
                   .output_bytes = kBlock,
                   .saved_bytes = kBlock,
                   .forward_flops = 1e9,
                   .backward_flops = 2e9},
                  {.name = "head",
                   .trainable_elements = kTile,
                   .total_elements = 2 * kTile,
                   .backward_workspace_bytes = kBlock,
                   .forward_flops = 1e9,
                   .backward_flops = 2e9}};
  return trace;
}

// Hands out blocks from each tier.
class Arena {
 public:
  Extent Take(TierKind tier, int64_t size_bytes) {
    const Extent extent{tier, end_[tier], size_bytes};
    end_[tier] += AlignUp(size_bytes, kBlock);
    return extent;
  }
  const TierBytes& end() const { return end_; }

 private:
  TierBytes end_;
};

Layout Homes(Arena& arena) {
  Layout layout;
  layout.constants = arena.Take(kDevice, kBlock);
  layout.inputs_host = arena.Take(kHost, kBlock);
  layout.tile_sums = arena.Take(kDevice, 2 * 4);
  layout.tile_sums_host = arena.Take(kHost, 2 * 4);
  layout.losses = arena.Take(kDevice, 8);
  layout.losses_host = arena.Take(kHost, 8);
  layout.flags = arena.Take(kDevice, 2 * 8);
  layout.flags_host = arena.Take(kHost, 2 * 8);
  layout.flags_cpu = arena.Take(kHost, 2 * 8);
  const auto slice = [&](Lane lane, TierKind state) {
    return SliceLayout{.begin = 0,
                       .end = kTile,
                       .mode = UpdateMode::kDeferred,
                       .update_lane = lane,
                       .state = arena.Take(state, kStateBytes),
                       .gradient = arena.Take(kHost, kWeightBytes),
                       .speculated = {}};
  };
  layout.layers.resize(2);
  layout.layers[0] = {arena.Take(kDevice, kWeightBytes),
                      {slice(Lane::kCompute, kNvme)}};
  layout.layers[1] = {arena.Take(kHost, 2 * kWeightBytes), {slice(Lane::kCpu, kHost)}};
  return layout;
}

/// Buffers that live within a plan; all plans put them at the same place.
struct Buffers {
  explicit Buffers(Arena& arena)
      : inputs(arena.Take(kDevice, kBlock)),
        head_weights(arena.Take(kDevice, 2 * kWeightBytes)),
        activation(arena.Take(kDevice, kBlock)),
        activation_gradient(arena.Take(kDevice, kBlock)),
        saved(arena.Take(kDevice, kBlock)),
        workspace(arena.Take(kDevice, kBlock)),
        accumulator(arena.Take(kDevice, 2 * kWeightBytes)),
        gradient(arena.Take(kDevice, kWeightBytes)),
        state(arena.Take(kDevice, kStateBytes)),
        stage(arena.Take(kHost, kStateBytes)) {}
  Extent inputs, head_weights, activation, activation_gradient, saved, workspace,
      accumulator, gradient, state, stage;
};

class TinyWriter {
 public:
  TinyWriter(const Layout& layout, const Buffers& buffers, const PlanKey& key)
      : layout_(layout), buffers_(buffers) {
    plan_.key = key;
  }

  Plan Write() {
    const bool pending = plan_.key.start == Border::kPending;
    const bool train = plan_.key.kind == PlanKind::kTrain;
    if (pending) UpdateBody();
    if (pending) UpdateHead();
    if (plan_.key.kind != PlanKind::kFlush) Forward();
    if (plan_.key.kind == PlanKind::kEvaluate) HeadForward();
    if (train) Backward();
    if (train) {
      Move(Lane::kDeviceToHost, -1, layout_.tile_sums, layout_.tile_sums_host,
           {Role::kTileSums, 0, 0});
    }
    if (plan_.key.kind != PlanKind::kFlush) {
      Move(Lane::kDeviceToHost, 1, layout_.losses, layout_.losses_host,
           {Role::kLoss, 1, 0});
    }
    Move(Lane::kDeviceToHost, -1, layout_.flags, layout_.flags_host,
         {Role::kFlags, 0, 0});
    plan_.result_op = static_cast<uint32_t>(plan_.ops.size()) - 1;
    return Tighten(plan_);
  }

 private:
  void Begin(OpCode code, Lane lane, int32_t layer, int32_t micro_batch = -1,
             int32_t slice = -1) {
    LooseOp op{{.code = code,
                .lane = lane,
                .layer = layer,
                .micro_batch = micro_batch,
                .slice = slice},
               {},
               {}};
    if (!plan_.ops.empty()) {
      op.waits.push_back(static_cast<uint32_t>(plan_.ops.size()) - 1);
    }
    plan_.ops.push_back(op);
  }
  void Use(Operand operand, AccessMode mode, const Extent& extent, Value value) {
    plan_.ops.back().accesses.push_back(
        {operand, mode, extent.tier, extent.offset, extent.size_bytes, value});
  }
  void Change(Operand operand, const Extent& extent, Role role, int32_t layer,
              int32_t index) {
    Use(operand, kRead, extent, {role, layer, index});
    Use(operand, kWrite, extent, {role, layer, index + 1});
  }
  void Move(Lane lane, int32_t layer, const Extent& source, const Extent& target,
            Value value) {
    const OpCode code = lane == Lane::kNvmeRead    ? OpCode::kRead
                        : lane == Lane::kNvmeWrite ? OpCode::kWrite
                                                   : OpCode::kCopy;
    Begin(code, lane, layer);
    Use(Operand::kSource, kRead, source, value);
    Use(Operand::kTarget, kWrite, target, value);
  }

  const SliceLayout& Slice(int32_t layer) const {
    return layout_.layers[layer].slices[0];
  }

  void UpdateBody() {
    const SliceLayout& slice = Slice(0);
    const Value old_state{Role::kState, 0, -1}, new_state{Role::kState, 0, 0};
    Move(Lane::kNvmeRead, 0, slice.state, buffers_.stage, old_state);
    Move(Lane::kHostToDevice, 0, buffers_.stage, buffers_.state, old_state);
    Move(Lane::kHostToDevice, 0, slice.gradient, buffers_.gradient,
         {Role::kGradient, 0, -1});
    Update(0, layout_.layers[0].weights, buffers_.state, buffers_.gradient,
           layout_.flags);
    Move(Lane::kDeviceToHost, 0, buffers_.state, buffers_.stage, new_state);
    Move(Lane::kNvmeWrite, 0, buffers_.stage, slice.state, new_state);
  }

  void UpdateHead() {
    const SliceLayout& slice = Slice(1);
    Extent weights = layout_.layers[1].weights;
    weights.size_bytes = kWeightBytes;  // the trainable front
    Update(1, weights, slice.state, slice.gradient, layout_.flags_cpu);
  }

  void Update(int32_t layer, const Extent& weights, const Extent& state,
              const Extent& gradient, const Extent& flags) {
    Begin(OpCode::kUpdate, Slice(layer).update_lane, layer, -1, 0);
    Change(Operand::kWeights, weights, Role::kWeight, layer, -1);
    Change(Operand::kState, state, Role::kState, layer, -1);
    Use(Operand::kGradient, kRead, gradient, {Role::kGradient, layer, -1});
    for (const AccessMode mode : {kRead, kWrite}) {
      Use(Operand::kFlags, mode, {flags.tier, flags.offset + 8 * layer, 8},
          {Role::kFlags, 0, 0});
      plan_.ops.back().accesses.back().value_offset = 8 * layer;
    }
  }

  void Compute(OpCode code, int32_t layer) {
    Begin(code, Lane::kCompute, layer, 0);
    Use(Operand::kWeights, kRead,
        layer == 0 ? layout_.layers[0].weights : buffers_.head_weights,
        {Role::kWeight, layer, 0});
    Use(Operand::kConstants, kRead, layout_.constants, {Role::kConstants, 0, 0});
    Use(Operand::kInputs, kRead, buffers_.inputs, {Role::kInputs, 0, 0});
    if (layer == 1) {
      Use(Operand::kInput, kRead, buffers_.activation, {Role::kActivation, 0, 0});
      Use(Operand::kLoss, kWrite, layout_.losses, {Role::kLoss, 1, 0});
    }
  }

  void Forward() {
    Move(Lane::kHostToDevice, -1, layout_.inputs_host, buffers_.inputs,
         {Role::kInputs, 0, 0});
    Compute(OpCode::kForward, 0);
    Use(Operand::kOutput, kWrite, buffers_.activation, {Role::kActivation, 0, 0});
    Use(Operand::kSaved, kWrite, buffers_.saved, {Role::kSaved, 0, 0});
    Move(Lane::kHostToDevice, 1, layout_.layers[1].weights, buffers_.head_weights,
         {Role::kWeight, 1, 0});
  }

  void HeadForward() { Compute(OpCode::kForward, 1); }

  void Backward() {
    const Extent accumulator{kDevice, buffers_.accumulator.offset,
                             kTile * kAccumulatorBytes};
    for (const int32_t layer : {1, 0}) {
      Begin(OpCode::kZero, Lane::kCompute, layer);
      Use(Operand::kAccumulator, kWrite, accumulator, {Role::kAccumulator, layer, 0});
      Compute(OpCode::kBackward, layer);
      if (layer == 1) {
        Use(Operand::kInputGradient, kWrite, buffers_.activation_gradient,
            {Role::kActivationGradient, 0, 0});
        Use(Operand::kWorkspace, kWrite, buffers_.workspace, {Role::kScratch, 0, 0});
      } else {
        Use(Operand::kSaved, kRead, buffers_.saved, {Role::kSaved, 0, 0});
        Use(Operand::kOutputGradient, kRead, buffers_.activation_gradient,
            {Role::kActivationGradient, 0, 0});
      }
      Change(Operand::kAccumulator, accumulator, Role::kAccumulator, layer, 0);
      Begin(OpCode::kReduce, Lane::kCompute, layer, -1, 0);
      Use(Operand::kAccumulator, kRead, accumulator, {Role::kAccumulator, layer, 1});
      Use(Operand::kGradient, kWrite, buffers_.gradient, {Role::kGradient, layer, 0});
      Use(Operand::kTileSums, kWrite,
          {kDevice, layout_.tile_sums.offset + 4 * layer, 4}, {Role::kTileSums, 0, 0});
      plan_.ops.back().accesses.back().value_offset = 4 * layer;
      Move(Lane::kDeviceToHost, layer, buffers_.gradient, Slice(layer).gradient,
           {Role::kGradient, layer, 0});
    }
  }

  const Layout& layout_;
  const Buffers& buffers_;
  LoosePlan plan_;
};

}  // namespace

PlanSet TinyPlanSet() {
  PlanSet set;
  Arena arena;
  set.trace = Trace();
  set.layout = Homes(arena);
  const Buffers buffers(arena);
  for (const PlanKey& key : {PlanKey{PlanKind::kTrain, Border::kSettled},
                             {PlanKind::kTrain, Border::kPending},
                             {PlanKind::kFlush, Border::kPending},
                             {PlanKind::kEvaluate, Border::kSettled}}) {
    set.plans.push_back(TinyWriter(set.layout, buffers, key).Write());
  }
  for (int32_t first = 0; first < 4; ++first) {
    for (int32_t second = 0; second < 4; ++second) {
      const bool after_step = first == kTinyFirst || first == kTinySteady;
      if (!after_step && (second == kTinySteady || second == kTinyFlush)) continue;
      const uint32_t last = static_cast<uint32_t>(set.plans[first].ops.size()) - 1;
      set.links.push_back({first, second, {{0, last}}});
    }
  }
  set.arena_bytes = arena.end();
  return set;
}

Budgets BudgetsOf(const PlanSet& set) {
  return {set.arena_bytes.device, set.arena_bytes.host, set.arena_bytes.nvme};
}

uint32_t FindOp(const Plan& plan, OpCode code, int32_t layer, Role role) {
  for (uint32_t op = 0; op < plan.ops.size(); ++op) {
    const Op& o = plan.ops[op];
    if (o.code == code && o.layer == layer &&
        (role == Role::kScratch || plan.Accesses(o).front().value.role == role)) {
      return op;
    }
  }
  STRATA_CHECK(false && "no such operation in the tiny plan");
  return 0;
}

}  // namespace strata
