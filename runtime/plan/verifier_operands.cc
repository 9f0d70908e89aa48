#include "runtime/plan/verifier_operands.h"

#include <absl/container/inlined_vector.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"

namespace strata::verifier {
namespace {

constexpr AccessMode kRead = AccessMode::kRead;
constexpr AccessMode kWrite = AccessMode::kWrite;

struct Expected {
  Operand operand;
  AccessMode mode;
  int64_t size_bytes;
  Value value;
  int64_t value_offset = 0;
  bool optional = false;
};
using ExpectedList = absl::InlinedVector<Expected, 16>;

const char* OperandName(Operand operand) {
  constexpr const char* kNames[kOperandCount] = {
      "weights",        "shared_weights", "constants",
      "inputs",         "input",          "output",
      "saved",          "workspace",      "output_gradient",
      "input_gradient", "accumulator",    "shared_accumulator",
      "loss",           "gradient",       "next_gradient",
      "tile_sums",      "state",          "speculated",
      "flags",          "source",         "target"};
  return kNames[static_cast<int>(operand)];
}

/// Writes down what one operation needs.
class OperandTable {
 public:
  OperandTable(const PlanSet& set, const Plan& plan, const Op& op)
      : trace_(set.trace), layout_(set.layout), key_(plan.key), op_(op) {}

  ExpectedList List() && {
    switch (op_.code) {
      case OpCode::kForward:
        Forward();
        break;
      case OpCode::kBackward:
        Backward();
        break;
      case OpCode::kReduce:
        Reduce();
        break;
      case OpCode::kUpdate:
        Update();
        break;
      case OpCode::kSpeculate:
        Speculate();
        break;
      case OpCode::kAdvance:
        Advance();
        break;
      case OpCode::kZero:
      case OpCode::kCopy:
      case OpCode::kRead:
      case OpCode::kWrite:
        break;  // their values are their own choice
    }
    return std::move(list_);
  }

 private:
  const LayerTrace& layer() const { return trace_.layers[op_.layer]; }
  bool is_last() const { return op_.layer == trace_.layer_count() - 1; }
  const SliceLayout& slice() const {
    return layout_.layers[op_.layer].slices[static_cast<size_t>(op_.slice)];
  }

  void Add(Operand operand, AccessMode mode, int64_t size_bytes, Role role,
           int32_t layer, int32_t index, int64_t value_offset = 0) {
    if (size_bytes == 0) return;
    list_.push_back({operand, mode, size_bytes, {role, layer, index}, value_offset});
  }
  void AddPart(Operand operand, AccessMode mode, int64_t element_bytes, Role role,
               int32_t index) {
    const Part part = PartOf(slice(), element_bytes);
    Add(operand, mode, part.size_bytes, role, op_.layer, index, part.offset);
  }

  void Compute() {
    const auto weights = [&](Operand operand, int32_t l) {
      Add(operand, kRead, trace_.layers[l].total_elements * trace_.format.weight,
          Role::kWeight, l, 0);
    };
    weights(Operand::kWeights, op_.layer);
    if (layer().shared_layer >= 0)
      weights(Operand::kSharedWeights, layer().shared_layer);
    Add(Operand::kConstants, kRead, trace_.constant_bytes, Role::kConstants, 0, 0);
    Add(Operand::kInputs, kRead, trace_.input_bytes, Role::kInputs, 0, op_.micro_batch);
    if (op_.layer > 0) {
      Add(Operand::kInput, kRead, trace_.layers[op_.layer - 1].output_bytes,
          Role::kActivation, op_.layer - 1, op_.micro_batch);
    }
    if (is_last()) {
      Add(Operand::kLoss, kWrite, 8, Role::kLoss, op_.layer, op_.micro_batch);
    }
  }

  void Forward() {
    Compute();
    Add(Operand::kOutput, kWrite, layer().output_bytes, Role::kActivation, op_.layer,
        op_.micro_batch);
    if (op_.recompute && !list_.empty()) {
      list_.back().optional = list_.back().operand == Operand::kOutput;
    }
    Add(Operand::kSaved, kWrite, layer().saved_bytes, Role::kSaved, op_.layer,
        op_.micro_batch);
    Add(Operand::kWorkspace, kWrite, layer().forward_workspace_bytes, Role::kScratch, 0,
        0);
  }

  void Backward() {
    Compute();
    const int32_t l = op_.layer, m = op_.micro_batch;
    Add(Operand::kSaved, kRead, layer().saved_bytes, Role::kSaved, l, m);
    Add(Operand::kOutputGradient, kRead, layer().output_bytes,
        Role::kActivationGradient, l, m);
    if (l > trace_.LowestTrainable()) {
      Add(Operand::kInputGradient, kWrite, trace_.layers[l - 1].output_bytes,
          Role::kActivationGradient, l - 1, m);
    }
    const auto accumulate = [&](Operand operand, Role role, int32_t owner) {
      const int64_t size_bytes =
          trace_.layers[owner].trainable_elements * kAccumulatorBytes;
      Add(operand, kRead, size_bytes, role, owner, m);
      Add(operand, kWrite, size_bytes, role, owner, m + 1);
    };
    accumulate(Operand::kAccumulator, Role::kAccumulator, l);
    if (layer().shared_layer >= 0) {
      accumulate(Operand::kSharedAccumulator, Role::kSharedAccumulator,
                 layer().shared_layer);
    }
    Add(Operand::kWorkspace, kWrite, layer().backward_workspace_bytes, Role::kScratch,
        0, 0);
  }

  void Reduce() {
    const int32_t all = key_.micro_batches;
    AddPart(Operand::kAccumulator, kRead, kAccumulatorBytes, Role::kAccumulator, all);
    if (trace_.Sharer(op_.layer) >= 0) {
      AddPart(Operand::kSharedAccumulator, kRead, kAccumulatorBytes,
              Role::kSharedAccumulator, all);
    }
    AddPart(Operand::kGradient, kWrite, trace_.format.gradient, Role::kGradient, 0);
    const int64_t tile = trace_.tile_elements;
    Add(Operand::kTileSums, kWrite, 4 * (slice().elements() / tile), Role::kTileSums, 0,
        0, 4 * (trace_.FirstTile(op_.layer) + slice().begin / tile));
  }

  void Update() {
    const int32_t epoch = StartsPending(key_, slice()) ? -1 : 0;
    for (const AccessMode mode : {kRead, kWrite}) {
      const int32_t index = mode == kRead ? epoch : epoch + 1;
      AddPart(Operand::kWeights, mode, trace_.format.weight, Role::kWeight, index);
      AddPart(Operand::kState, mode, trace_.format.state, Role::kState, index);
      Add(Operand::kFlags, mode, 8, Role::kFlags, 0, 0, 8 * int64_t{op_.layer});
    }
    AddPart(Operand::kGradient, kRead, trace_.format.gradient, Role::kGradient, epoch);
  }

  void Speculate() {
    AddPart(Operand::kWeights, kRead, trace_.format.weight, Role::kWeight, 0);
    AddPart(Operand::kState, kRead, trace_.format.state, Role::kState, 0);
    AddPart(Operand::kGradient, kRead, trace_.format.gradient, Role::kGradient, 0);
    AddPart(Operand::kSpeculated, kWrite, trace_.format.weight, Role::kSpeculated, 1);
  }

  void Advance() {
    Update();
    AddPart(Operand::kNextGradient, kRead, trace_.format.gradient, Role::kGradient, 0);
    AddPart(Operand::kSpeculated, kWrite, trace_.format.weight, Role::kSpeculated, 1);
    AddPart(Operand::kGradient, kWrite, trace_.format.gradient, Role::kGradient, 0);
    if (!list_.empty()) list_.back().optional = true;
  }

  const StepTrace& trace_;
  const Layout& layout_;
  const PlanKey& key_;
  const Op& op_;
  ExpectedList list_;
};

const Access* FindAccess(const Plan& plan, const Op& op, Operand operand,
                         AccessMode mode) {
  for (const Access& access : plan.Accesses(op)) {
    if (access.operand == operand && access.mode == mode) return &access;
  }
  return nullptr;
}

absl::Status CheckLane(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  bool right = o.lane == Lane::kCompute;
  if (o.code == OpCode::kUpdate || o.code == OpCode::kSpeculate ||
      o.code == OpCode::kAdvance) {
    right = o.slice >= 0 &&
            o.lane == set.layout.layers[o.layer].slices[o.slice].update_lane;
  } else if (o.code == OpCode::kRead) {
    right = o.lane == Lane::kNvmeRead;
  } else if (o.code == OpCode::kWrite) {
    right = o.lane == Lane::kNvmeWrite;
  } else if (o.code == OpCode::kCopy) {
    right = RunsOneByOne(o.lane) && o.lane != Lane::kCollective;
  }
  if (right) return absl::OkStatus();
  return OpError(set.trace, plan, op, "it does not belong into this lane");
}

// The kinds of plan that may hold the operation, and the fields it needs.
absl::Status CheckFields(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  const bool train = plan.key.kind == PlanKind::kTrain;
  const auto error = [&](const auto&... what) {
    return OpError(set.trace, plan, op, what...);
  };
  switch (o.code) {
    case OpCode::kForward:
    case OpCode::kBackward: {
      if (o.layer < 0 || o.micro_batch < 0 || o.micro_batch >= plan.key.micro_batches) {
        return error("it needs a layer and a micro-batch of the plan");
      }
      const bool last = o.layer == set.trace.layer_count() - 1;
      const bool forward = o.code == OpCode::kForward;
      if (plan.key.kind == PlanKind::kFlush || (!forward && !train) ||
          (forward && train && last) ||
          (!forward && o.layer < set.trace.LowestTrainable())) {
        return error("this plan computes nothing like it");
      }
      return absl::OkStatus();
    }
    case OpCode::kZero:
      if (o.layer < 0 || !train)
        return error("it needs a layer and a step that trains");
      return absl::OkStatus();
    case OpCode::kReduce:
    case OpCode::kUpdate:
    case OpCode::kSpeculate:
    case OpCode::kAdvance:
      if (o.slice < 0) return error("it needs a layer and a slice");
      return absl::OkStatus();
    case OpCode::kCopy:
    case OpCode::kRead:
    case OpCode::kWrite:
      return absl::OkStatus();
  }
  return error("its code is unknown");
}

bool TiersFit(const Op& op, const Access& source, const Access& target) {
  const bool from_device = source.tier == TierKind::kDevice;
  const bool to_device = target.tier == TierKind::kDevice;
  switch (op.code) {
    case OpCode::kRead:
      return source.tier == TierKind::kNvme && target.tier == TierKind::kHost;
    case OpCode::kWrite:
      return source.tier == TierKind::kHost && target.tier == TierKind::kNvme;
    default:
      break;
  }
  if (source.tier == TierKind::kNvme || target.tier == TierKind::kNvme) return false;
  switch (op.lane) {
    case Lane::kHostToDevice:
      return !from_device && to_device;
    case Lane::kDeviceToHost:
      return from_device && !to_device;
    case Lane::kCompute:
      return from_device && to_device;
    case Lane::kCpu:
      return !from_device && !to_device;
    default:
      return false;
  }
}

absl::Status CheckTransfer(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  const Access* source = FindAccess(plan, o, Operand::kSource, kRead);
  const Access* target = FindAccess(plan, o, Operand::kTarget, kWrite);
  if (source == nullptr || target == nullptr || o.access_count != 2) {
    return OpError(set.trace, plan, op, "it needs a source and a target, nothing else");
  }
  if (source->value != target->value || source->value_offset != target->value_offset ||
      source->size_bytes != target->size_bytes) {
    return OpError(set.trace, plan, op, "its source ", ToString(source->value), "+",
                   source->value_offset, " and target ", ToString(target->value), "+",
                   target->value_offset, " differ in value, part or size");
  }
  if (!TiersFit(o, *source, *target)) {
    return OpError(set.trace, plan, op, "it cannot move from ", Name(source->tier),
                   " to ", Name(target->tier));
  }
  return absl::OkStatus();
}

absl::Status CheckZero(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  if (o.access_count == 1) {
    const Access& a = plan.Accesses(o).front();
    const bool shared = a.operand == Operand::kSharedAccumulator;
    const Value value{shared ? Role::kSharedAccumulator : Role::kAccumulator, o.layer,
                      0};
    if ((shared || a.operand == Operand::kAccumulator) && a.mode == kWrite &&
        a.tier == TierKind::kDevice && a.value == value && a.value_offset == 0 &&
        a.size_bytes ==
            set.trace.layers[o.layer].trainable_elements * kAccumulatorBytes) {
      return absl::OkStatus();
    }
  }
  return OpError(set.trace, plan, op, "it must write one whole zeroed accumulator");
}

absl::Status CheckOne(const PlanSet& set, const Plan& plan, uint32_t op,
                      const Expected& expected) {
  const Op& o = plan.ops[op];
  const bool reads = expected.mode == kRead;
  const Access* a = FindAccess(plan, o, expected.operand, expected.mode);
  const char* name = OperandName(expected.operand);
  if (a == nullptr) {
    return OpError(set.trace, plan, op, "it must ", reads ? "read " : "write ", name);
  }
  const TierKind tier = o.lane == Lane::kCpu ? TierKind::kHost : TierKind::kDevice;
  if (a->tier != tier || a->size_bytes != expected.size_bytes ||
      a->value != expected.value || a->value_offset != expected.value_offset) {
    return OpError(set.trace, plan, op, reads ? "reads " : "writes ", name, " as ",
                   ToString(a->value), "+", a->value_offset, " of ", a->size_bytes,
                   " bytes in ", Name(a->tier), "; it must be ",
                   ToString(expected.value), "+", expected.value_offset, " of ",
                   expected.size_bytes, " bytes in ", Name(tier));
  }
  if (expected.operand == Operand::kFlags) {
    const Extent& home = o.lane == Lane::kCpu ? set.layout.flags_cpu : set.layout.flags;
    if (a->offset != home.offset + expected.value_offset) {
      return OpError(set.trace, plan, op, "its flag is not the layer's own");
    }
  }
  const Access* other = reads ? nullptr : FindAccess(plan, o, expected.operand, kRead);
  if (other != nullptr && (other->tier != a->tier || other->offset != a->offset)) {
    return OpError(set.trace, plan, op, "must change ", name, " in place");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOperands(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  STRATA_RETURN_IF_ERROR(CheckFields(set, plan, op));
  STRATA_RETURN_IF_ERROR(CheckLane(set, plan, op));
  if (o.code == OpCode::kCopy || o.code == OpCode::kRead || o.code == OpCode::kWrite) {
    return CheckTransfer(set, plan, op);
  }
  if (o.code == OpCode::kZero) return CheckZero(set, plan, op);
  uint32_t found = 0;
  for (const Expected& expected : OperandTable(set, plan, o).List()) {
    if (expected.optional &&
        FindAccess(plan, o, expected.operand, expected.mode) == nullptr) {
      continue;
    }
    STRATA_RETURN_IF_ERROR(CheckOne(set, plan, op, expected));
    ++found;
  }
  if (found != o.access_count) {
    return OpError(set.trace, plan, op, "it has ", o.access_count,
                   " accesses, but needs ", found);
  }
  return absl::OkStatus();
}

}  // namespace strata::verifier
