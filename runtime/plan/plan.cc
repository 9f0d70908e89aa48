#include "runtime/plan/plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// How many slices of the whole layout are updated in each mode.
struct ModeCounts {
  int64_t immediate = 0, deferred = 0, lagged = 0;
};

ModeCounts CountModes(const Layout& layout) {
  ModeCounts counts;
  for (const LayerPlacement& layer : layout.layers) {
    for (const SliceLayout& slice : layer.slices) {
      switch (slice.mode) {
        case UpdateMode::kImmediate:
          ++counts.immediate;
          break;
        case UpdateMode::kDeferred:
          ++counts.deferred;
          break;
        case UpdateMode::kLagged:
          ++counts.lagged;
          break;
      }
    }
  }
  return counts;
}

bool Moves(OpCode code) {
  return code == OpCode::kCopy || code == OpCode::kRead || code == OpCode::kWrite;
}

}  // namespace

const char* Name(Lane lane) {
  switch (lane) {
    case Lane::kCompute:
      return "compute";
    case Lane::kHostToDevice:
      return "host-to-device";
    case Lane::kDeviceToHost:
      return "device-to-host";
    case Lane::kNvmeRead:
      return "nvme-read";
    case Lane::kNvmeWrite:
      return "nvme-write";
    case Lane::kCpu:
      return "cpu";
    case Lane::kCollective:
      return "collective";
  }
  return "?";
}

const char* Name(OpCode code) {
  switch (code) {
    case OpCode::kForward:
      return "forward";
    case OpCode::kBackward:
      return "backward";
    case OpCode::kZero:
      return "zero";
    case OpCode::kReduce:
      return "reduce";
    case OpCode::kUpdate:
      return "update";
    case OpCode::kSpeculate:
      return "speculate";
    case OpCode::kAdvance:
      return "advance";
    case OpCode::kCopy:
      return "copy";
    case OpCode::kRead:
      return "read";
    case OpCode::kWrite:
      return "write";
  }
  return "?";
}

const char* Name(Role role) {
  switch (role) {
    case Role::kScratch:
      return "scratch";
    case Role::kConstants:
      return "constants";
    case Role::kInputs:
      return "inputs";
    case Role::kWeight:
      return "weight";
    case Role::kState:
      return "state";
    case Role::kGradient:
      return "gradient";
    case Role::kSpeculated:
      return "speculated";
    case Role::kAccumulator:
      return "accumulator";
    case Role::kSharedAccumulator:
      return "shared_accumulator";
    case Role::kActivation:
      return "activation";
    case Role::kActivationGradient:
      return "activation_gradient";
    case Role::kSaved:
      return "saved";
    case Role::kTileSums:
      return "tile_sums";
    case Role::kLoss:
      return "loss";
    case Role::kFlags:
      return "flags";
  }
  return "?";
}

const char* Name(Border border) {
  switch (border) {
    case Border::kSettled:
      return "settled";
    case Border::kPending:
      return "pending";
    case Border::kPendingClipped:
      return "pending-clipped";
  }
  return "?";
}

const char* Name(PlanKind kind) {
  switch (kind) {
    case PlanKind::kTrain:
      return "train";
    case PlanKind::kEvaluate:
      return "evaluate";
    case PlanKind::kFlush:
      return "flush";
  }
  return "?";
}

const char* Name(UpdateMode mode) {
  switch (mode) {
    case UpdateMode::kImmediate:
      return "immediate";
    case UpdateMode::kDeferred:
      return "deferred";
    case UpdateMode::kLagged:
      return "lagged";
  }
  return "?";
}

std::string ToString(const Value& value) {
  return absl::StrCat(Name(value.role), "(", value.layer, ", ", value.index, ")");
}

std::string ToString(const PlanKey& key) {
  return absl::StrCat(
      Name(key.kind), "(", Name(key.start), ", ", key.micro_batches,
      key.micro_batches == 1 ? " micro-batch" : " micro-batches",
      key.kind == PlanKind::kTrain && key.speculate ? ", speculating" : "", ")");
}

int32_t PlanSet::Find(const PlanKey& key) const {
  const auto found = std::find_if(plans.begin(), plans.end(),
                                  [&](const Plan& plan) { return plan.key == key; });
  return found == plans.end() ? -1 : static_cast<int32_t>(found - plans.begin());
}

int32_t PlanSet::FindLink(int32_t first, int32_t second) const {
  const auto found = std::find_if(links.begin(), links.end(), [&](const Link& link) {
    return link.first == first && link.second == second;
  });
  return found == links.end() ? -1 : static_cast<int32_t>(found - links.begin());
}

bool MayFollow(const PlanSet& set, const Plan& plan, const PlanKey& next) {
  const ModeCounts counts = CountModes(set.layout);
  const bool ends_settled =
      plan.key.kind != PlanKind::kTrain || counts.deferred + counts.lagged == 0;
  if (ends_settled) return next.start == Border::kSettled;
  if (next.kind == PlanKind::kFlush) return next.start == Border::kPending;
  switch (next.start) {
    case Border::kSettled:
      // After a skipped step. What an immediate slice applied already cannot be voided.
      return counts.immediate == 0;
    case Border::kPending:
      return plan.key.speculate || counts.lagged == 0;
    case Border::kPendingClipped:
      return true;
  }
  return false;
}

std::string Describe(const StepTrace& trace, const Plan& plan, const Op& op) {
  const char* what = op.recompute ? "recompute" : Name(op.code);
  int32_t index = op.slice >= 0 ? op.slice : op.micro_batch;
  if (Moves(op.code) && op.access_count > 0) {
    what = Name(plan.Accesses(op).front().value.role);
  }
  std::string text;
  if (op.layer >= 0 && op.layer < trace.layer_count()) {
    text = absl::StrCat(trace.layers[op.layer].name, "/");
  }
  absl::StrAppend(&text, what);
  if (index >= 0) absl::StrAppend(&text, "[", index, "]");
  return text;
}

}  // namespace strata
