#include <algorithm>
#include <set>

#include "model/trainer.h"
#include "runtime/base/status.h"

namespace strata {

StoreNeeds StoreNeedsOf(const PlanSet& set) {
  StoreNeeds needs{.capacity_bytes = set.arena_bytes.nvme};
  std::set<int64_t> offsets;
  for (const Plan& plan : set.plans) {
    int32_t reads = 0, writes = 0;
    for (const Op& op : plan.ops) {
      reads += op.code == OpCode::kRead;
      writes += op.code == OpCode::kWrite;
      for (const Access& access : plan.Accesses(op)) {
        if (access.tier == TierKind::kNvme) offsets.insert(access.offset);
      }
    }
    // One plan's tail and the next one's head can be under way at once.
    needs.requests_in_flight =
        std::max({needs.requests_in_flight, 2 * reads, 2 * writes});
  }
  for (const LayerPlacement& layer : set.layout.layers) {
    for (const SliceLayout& slice : layer.slices) {
      if (slice.state.tier == TierKind::kNvme) offsets.insert(slice.state.offset);
    }
  }
  needs.extent_count = static_cast<int64_t>(offsets.size());
  return needs;
}

absl::StatusOr<PlannedStep> PlanTraining(const ModelShape& model,
                                         const TrainerOptions& options,
                                         int64_t matmul_workspace_bytes) {
  PlanRequest request;
  request.trace =
      TraceStep(model, matmul_workspace_bytes, UpdatesWait(options.optimizer), 0, 1);
  STRATA_RETURN_IF_ERROR(ValidateTrace(request.trace));
  request.budgets = options.budgets;
  request.profile = options.profile;
  request.pins = options.pins;
  request.overrides = options.overrides;
  if (options.trains) request.plans.train_micro_batches = {model.micro_batches};
  for (const int32_t count : options.partial_steps) {
    auto& counts = request.plans.train_micro_batches;
    if (std::find(counts.begin(), counts.end(), count) == counts.end())
      counts.push_back(count);
  }
  request.plans.evaluate = options.evaluates;
  return PlanStep(request);
}

}  // namespace strata
