#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"
#include "runtime/plan/verifier_layout.h"
#include "runtime/storage/store.h"

namespace strata::verifier {
namespace {

absl::Status CheckKey(const StepTrace& trace, const Plan& plan) {
  const PlanKey& key = plan.key;
  if (key.kind == PlanKind::kEvaluate && key.start != Border::kSettled) {
    return PlanError(plan, "an evaluation starts settled");
  }
  if (key.kind == PlanKind::kFlush && key.start != Border::kPending) {
    return PlanError(plan, "a flush starts pending");
  }
  if (key.kind != PlanKind::kFlush &&
      (key.micro_batches < 1 || key.micro_batches > trace.micro_batches)) {
    return PlanError(plan, "a step of this trace has 1 to ", trace.micro_batches,
                     " micro-batches");
  }
  if (key.kind == PlanKind::kTrain && trace.LowestTrainable() == trace.layer_count()) {
    return PlanError(plan, "every layer is frozen, there is nothing to train");
  }
  return absl::OkStatus();
}

absl::Status CheckIndices(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  if (uint64_t{o.first_access} + o.access_count > plan.accesses.size() ||
      uint64_t{o.first_wait} + o.wait_count > plan.waits.size()) {
    return PlanError(plan, "operation ", op,
                     ": its accesses or waits are out of range");
  }
  const auto error = [&](const auto&... what) {
    return OpError(set.trace, plan, op, what...);
  };
  if (o.layer < -1 || o.layer >= set.trace.layer_count() || o.micro_batch < -1 ||
      o.micro_batch >= std::max(plan.key.micro_batches, set.trace.micro_batches) ||
      o.slice < -1) {
    return error("there is no layer ", o.layer, ", micro-batch ", o.micro_batch,
                 " or slice ", o.slice);
  }
  if (o.slice >= 0 && (o.layer < 0 || static_cast<size_t>(o.slice) >=
                                          set.layout.layers[o.layer].slices.size())) {
    return error("layer ", o.layer, " has no slice ", o.slice);
  }
  if (o.recompute && o.code != OpCode::kForward) {
    return error("only a forward can be a recompute");
  }
  for (const uint32_t wait : plan.Waits(o)) {
    if (wait >= op)
      return error("it waits for operation ", wait, ", which comes later");
  }
  return absl::OkStatus();
}

// What the store takes: whole blocks, from and to whole blocks of host memory.
bool IsAlignedForStore(const Access& access) {
  return access.offset % Store::kAlignment == 0 &&
         access.size_bytes % Store::kAlignment == 0;
}

absl::Status CheckAccesses(const PlanSet& set, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  const auto accesses = plan.Accesses(o);
  const auto error = [&](const Access& a, const auto&... what) {
    return OpError(set.trace, plan, op,
                   a.mode == AccessMode::kRead ? "reads " : "writes ",
                   RangeName(a.tier, a.offset, a.size_bytes), ", ", what...);
  };
  for (size_t i = 0; i < accesses.size(); ++i) {
    const Access& a = accesses[i];
    if (a.size_bytes <= 0 || a.offset < 0 ||
        a.offset > set.arena_bytes[a.tier] - a.size_bytes) {
      return error(a, "outside the arena of ", set.arena_bytes[a.tier], " bytes");
    }
    if ((o.code == OpCode::kRead || o.code == OpCode::kWrite) &&
        !IsAlignedForStore(a)) {
      return error(a, "not in whole blocks of ", Store::kAlignment, " bytes");
    }
    for (size_t j = 0; j < i; ++j) {
      const Access& b = accesses[j];
      if (a.operand == b.operand && a.mode == b.mode) {
        return error(a, "the second access of one operand");
      }
      const bool overlap = a.tier == b.tier && a.offset < b.offset + b.size_bytes &&
                           b.offset < a.offset + a.size_bytes;
      const bool in_place = a.operand == b.operand && a.offset == b.offset &&
                            a.size_bytes == b.size_bytes;
      const bool reads = a.mode == AccessMode::kRead && b.mode == AccessMode::kRead;
      if (overlap && !in_place && !reads) {
        return error(a, "overlapping another operand of its own at ",
                     RangeName(b.tier, b.offset, b.size_bytes));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStructure(const PlanSet& set, const Plan& plan) {
  STRATA_RETURN_IF_ERROR(CheckKey(set.trace, plan));
  for (uint32_t op = 0; op < plan.ops.size(); ++op) {
    STRATA_RETURN_IF_ERROR(CheckIndices(set, plan, op));
    STRATA_RETURN_IF_ERROR(CheckAccesses(set, plan, op));
  }
  if (plan.result_op >= plan.ops.size()) {
    return PlanError(plan, "result_op is ", plan.result_op, " of ", plan.ops.size(),
                     " operations");
  }
  return absl::OkStatus();
}

absl::Status CheckLinks(const PlanSet& set) {
  const int32_t count = static_cast<int32_t>(set.plans.size());
  std::set<std::pair<int32_t, int32_t>> linked;
  for (const Link& link : set.links) {
    const auto error = [&](const auto&... what) {
      return absl::InternalError(absl::StrCat("link from plan ", link.first, " to ",
                                              link.second, ": ", what...));
    };
    if (link.first < 0 || link.first >= count || link.second < 0 ||
        link.second >= count) {
      return error("there are ", count, " plans");
    }
    const Plan &first = set.plans[link.first], &second = set.plans[link.second];
    if (!MayFollow(set, first, second.key)) {
      return error(ToString(second.key), " may not follow ", ToString(first.key));
    }
    if (!linked.insert({link.first, link.second}).second)
      return error("it is there twice");
    uint32_t before = 0;
    for (const Link::Wait& wait : link.waits) {
      if (wait.op >= second.ops.size() || wait.after >= first.ops.size() ||
          wait.op < before) {
        return error("the wait of ", wait.op, " on ", wait.after,
                     " is out of range or out of order");
      }
      before = wait.op;
    }
  }
  for (int32_t first = 0; first < count; ++first) {
    for (int32_t second = 0; second < count; ++second) {
      if (MayFollow(set, set.plans[first], set.plans[second].key) &&
          linked.count({first, second}) == 0) {
        return absl::InternalError(
            absl::StrCat("plan ", ToString(set.plans[second].key), " may follow ",
                         ToString(set.plans[first].key), ", but there is no link from ",
                         first, " to ", second));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::verifier
