#include "runtime/plan/verifier_races.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"

namespace strata::verifier {
namespace {

// Enters an access of `op` as the newest one.
void Enter(const Plan& plan, uint32_t op, const Access& access, Touches& touches) {
  auto& tier = touches[static_cast<size_t>(access.tier)];
  const int64_t end = access.offset + access.size_bytes;
  if (access.mode == AccessMode::kWrite) {
    tier.Assign(access.offset, end, Touch(op));
    return;
  }
  const Lane lane = plan.ops[op].lane;
  tier.Update(access.offset, end, [&](Touch& touch) {
    if (RunsOneByOne(lane)) {
      touch.lane_reader[static_cast<size_t>(lane)] = op;
    } else {
      touch.nvme_readers.push_back(op);
    }
  });
}

// Reads come before writes in an operation, and after them looking from the end.
void EnterAll(const Plan& plan, uint32_t op, AccessMode mode, Touches& touches) {
  for (const Access& access : plan.Accesses(plan.ops[op])) {
    if (access.mode == mode) Enter(plan, op, access, touches);
  }
}

bool Overlaps(const Access& access, const Extent& extent) {
  return access.tier == extent.tier &&
         access.offset < extent.offset + extent.size_bytes &&
         extent.offset < access.offset + access.size_bytes;
}

}  // namespace

RaceCheck::RaceCheck(const PlanSet& set, const Plan& plan)
    : set_(set), plan_(plan), order_(plan) {}

absl::Status RaceCheck::Race(uint32_t first, uint32_t second,
                             const Access& access) const {
  return OpError(set_.trace, plan_, second,
                 access.mode == AccessMode::kRead ? "reads " : "writes ",
                 RangeName(access.tier, access.offset, access.size_bytes),
                 " in a race with ", OpName(set_.trace, plan_, first),
                 ": neither lanes nor waits order them");
}

absl::Status RaceCheck::CheckAccess(uint32_t op, const Access& access) const {
  uint32_t racing = Touch::kNobody;
  const auto& tier = last_[static_cast<size_t>(access.tier)];
  tier.ForEach(
      access.offset, access.offset + access.size_bytes,
      [&](int64_t, int64_t, const Touch& touch) {
        if (touch.writer != Touch::kNobody && !order_.Before(touch.writer, op)) {
          racing = touch.writer;
        }
        if (access.mode == AccessMode::kRead) return racing == Touch::kNobody;
        touch.ForEachReader([&](uint32_t reader) {
          if (!order_.Before(reader, op)) racing = reader;
        });
        return racing == Touch::kNobody;
      });
  return racing == Touch::kNobody ? absl::OkStatus() : Race(racing, op, access);
}

absl::Status RaceCheck::Check() {
  for (uint32_t op = 0; op < plan_.ops.size(); ++op) {
    for (const Access& access : plan_.Accesses(plan_.ops[op])) {
      STRATA_RETURN_IF_ERROR(CheckAccess(op, access));
    }
    EnterAll(plan_, op, AccessMode::kRead, last_);
    EnterAll(plan_, op, AccessMode::kWrite, last_);
  }
  for (uint32_t i = 0; i < plan_.ops.size(); ++i) {
    const uint32_t op = static_cast<uint32_t>(plan_.ops.size()) - 1 - i;
    EnterAll(plan_, op, AccessMode::kWrite, first_);
    EnterAll(plan_, op, AccessMode::kRead, first_);
  }
  return absl::OkStatus();
}

absl::Status RaceCheck::CheckResults() const {
  const Layout& layout = set_.layout;
  for (uint32_t op = 0; op < plan_.ops.size(); ++op) {
    if (op == plan_.result_op || order_.Before(op, plan_.result_op)) continue;
    for (const Access& access : plan_.Accesses(plan_.ops[op])) {
      const bool reads_inputs = Overlaps(access, layout.inputs_host);
      const bool writes_result =
          access.mode == AccessMode::kWrite &&
          (Overlaps(access, layout.tile_sums_host) ||
           Overlaps(access, layout.losses_host) ||
           Overlaps(access, layout.flags_host));  // flags_cpu is read atomically
      if (reads_inputs || writes_result) {
        return OpError(set_.trace, plan_, op,
                       reads_inputs ? "reads inputs" : "writes results", " at ",
                       RangeName(access.tier, access.offset, access.size_bytes),
                       ", perhaps after the step has ended with ",
                       OpName(set_.trace, plan_, plan_.result_op));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RaceCheck::CheckLink(const RaceCheck& first, const Link& link) const {
  const LinkedBefore order(first.order_, plan_, link);
  absl::Status status;
  const auto require = [&](uint32_t before, uint32_t op, TierKind tier,
                           int64_t offset) {
    if (before == Touch::kNobody || op == Touch::kNobody || order.Before(before, op))
      return;
    status = OpError(set_.trace, plan_, op, "touches ", Name(tier), " ", offset,
                     " in a race with ", OpName(set_.trace, first.plan_, before),
                     " of the plan before, ", ToString(first.plan_.key),
                     ": neither lanes nor waits nor their link order them");
  };
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    const size_t t = static_cast<size_t>(tier);
    for (const auto& entry : first_[t].ranges()) {
      const int64_t begin =
          entry.first;  // clang 14 cannot capture a structured binding
      const auto& range = entry.second;
      const Touch& next = range.value;
      first.last_[t].ForEach(
          begin, range.end, [&](int64_t overlap, int64_t, const Touch& before) {
            const int64_t at = std::max(begin, overlap);
            require(before.writer, next.writer, tier, at);
            next.ForEachReader(
                [&](uint32_t reader) { require(before.writer, reader, tier, at); });
            before.ForEachReader(
                [&](uint32_t reader) { require(reader, next.writer, tier, at); });
            return status.ok();
          });
      STRATA_RETURN_IF_ERROR(status);
    }
  }
  return status;
}

}  // namespace strata::verifier
