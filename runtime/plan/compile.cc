#include "runtime/plan/compile.h"

#include <algorithm>
#include <functional>

#include "runtime/base/status.h"
#include "runtime/plan/layout.h"
#include "runtime/plan/packing.h"
#include "runtime/plan/step_writer.h"
#include "runtime/plan/waits.h"

namespace strata {
namespace {

std::vector<int32_t> Slots(const Decisions& decisions) {
  std::vector<int32_t> slots(kPoolCount, 0);
  const auto set = [&slots](Pool pool, int32_t count) {
    slots[static_cast<size_t>(pool)] = count;
  };
  const int32_t state = std::max(decisions.state_slots, 1);
  const int32_t activations = std::max(decisions.activation_slots, 1);
  set(Pool::kCompute, 1);
  set(Pool::kWeights,
      std::max(decisions.segment_layers + decisions.weight_slots - 1, 1));
  set(Pool::kOldWeights, state);
  set(Pool::kState, state);
  set(Pool::kGradientIn, state);
  set(Pool::kGradientOut, 2 * state);
  set(Pool::kSpeculated, state);
  set(Pool::kActivationIn, activations);
  set(Pool::kActivationOut, activations);
  set(Pool::kAccumulatorMove, 1);
  set(Pool::kStageIn, std::max(decisions.stage_slots, 1));
  set(Pool::kStageOut, std::max(decisions.stage_slots, 1));
  // The cpu lane falls behind the backward and catches up with it at times.
  set(Pool::kArrived, std::max(2 * decisions.stage_slots, 2));
  return slots;
}

struct ProgramInputs {
  const StepTrace& trace;
  const Decisions& decisions;
  const Layout& layout;
  const TierBytes& homes;
};

struct AddressedProgram {
  std::vector<VirtualOp> list;
  std::vector<VirtualBuffer> buffers;  // with their offsets
};

// Writes the plan of `key`, gives its buffers addresses, and raises `arenas` to what it
// needs.
AddressedProgram WriteProgram(const ProgramInputs& inputs, const PlanKey& key,
                              TierBytes* arenas) {
  const std::vector<int32_t> slots = Slots(inputs.decisions);
  Program program =
      StepWriter(inputs.trace, inputs.decisions, inputs.layout, key).Write();
  AddressedProgram addressed{program.Schedule(slots), {}};
  const TierBytes end = PackBuffers(program.buffers(), slots, inputs.homes);
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    (*arenas)[tier] = std::max((*arenas)[tier], end[tier]);
  }
  addressed.buffers = std::move(program.buffers());
  return addressed;
}

// Gives virtual accesses their addresses.
Plan Resolve(const PlanKey& key, const std::vector<VirtualOp>& list,
             const std::vector<VirtualBuffer>& buffers) {
  Plan plan;
  plan.key = key;
  plan.ops.reserve(list.size());
  for (const VirtualOp& virtual_op : list) {
    Op op = virtual_op.op;
    op.first_access = static_cast<uint32_t>(plan.accesses.size());
    op.access_count = static_cast<uint32_t>(virtual_op.accesses.size());
    for (const VirtualAccess& access : virtual_op.accesses) {
      const Place& place = access.place;
      const int64_t base =
          place.buffer < 0 ? 0 : buffers[static_cast<size_t>(place.buffer)].offset;
      plan.accesses.push_back({access.operand, access.mode, place.tier,
                               base + place.offset, access.size_bytes, access.value,
                               access.value_offset});
    }
    plan.ops.push_back(op);
  }
  plan.result_op = static_cast<uint32_t>(plan.ops.size()) - 1;
  return plan;
}

void LinkPlans(PlanSet& set) {
  const int32_t count = static_cast<int32_t>(set.plans.size());
  for (int32_t first = 0; first < count; ++first) {
    std::vector<int32_t> indices;
    std::vector<const Plan*> seconds;
    for (int32_t second = 0; second < count; ++second) {
      if (!MayFollow(set, set.plans[first], set.plans[second].key)) continue;
      indices.push_back(second);
      seconds.push_back(&set.plans[second]);
    }
    std::vector<std::vector<Link::Wait>> links = DeriveLinks(set.plans[first], seconds);
    for (size_t i = 0; i < links.size(); ++i) {
      set.links.push_back({first, indices[i], std::move(links[i])});
    }
  }
}

}  // namespace

std::vector<PlanKey> PlanKeys(const StepTrace& trace, const Decisions& decisions,
                              const PlanSetOptions& options) {
  bool pending = false, lagged = false;
  for (const LayerDecision& layer : decisions.layers) {
    for (const SliceDecision& slice : layer.slices) {
      pending |= slice.mode != UpdateMode::kImmediate;
      lagged |= slice.mode == UpdateMode::kLagged;
    }
  }
  std::vector<PlanKey> keys;
  std::vector<int32_t> counts = options.train_micro_batches;
  std::sort(counts.begin(), counts.end(), std::greater<>());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const int32_t count : counts) {
    for (const Border start :
         {Border::kSettled, Border::kPending, Border::kPendingClipped}) {
      if (start == Border::kPending && !pending) continue;
      if (start == Border::kPendingClipped && !lagged) continue;
      keys.push_back({PlanKind::kTrain, start, count, true});
      if (lagged) keys.push_back({PlanKind::kTrain, start, count, false});
    }
  }
  if (pending)
    keys.push_back({PlanKind::kFlush, Border::kPending, trace.micro_batches, true});
  if (options.evaluate) {
    keys.push_back({PlanKind::kEvaluate, Border::kSettled, trace.micro_batches, true});
  }
  return keys;
}

absl::StatusOr<TierBytes> MeasureArenas(const StepTrace& trace,
                                        const Decisions& decisions,
                                        std::span<const PlanKey> keys) {
  TierBytes homes;
  STRATA_ASSIGN_OR_RETURN(const Layout layout, MakeHomes(trace, decisions, &homes));
  TierBytes arenas = homes;
  for (const PlanKey& key : keys) {
    WriteProgram({trace, decisions, layout, homes}, key, &arenas);
  }
  return arenas;
}

absl::StatusOr<PlanSet> CompilePlanSet(const StepTrace& trace,
                                       const Decisions& decisions,
                                       std::span<const PlanKey> keys) {
  PlanSet set;
  set.trace = trace;
  TierBytes homes;
  STRATA_ASSIGN_OR_RETURN(set.layout, MakeHomes(trace, decisions, &homes));
  set.arena_bytes = homes;
  for (const PlanKey& key : keys) {
    const AddressedProgram addressed =
        WriteProgram({set.trace, decisions, set.layout, homes}, key, &set.arena_bytes);
    set.plans.push_back(Resolve(key, addressed.list, addressed.buffers));
    DeriveWaits(set.plans.back());
  }
  LinkPlans(set);
  return set;
}

}  // namespace strata
