#include "runtime/plan/verifier_values.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <string>

#include "runtime/base/status.h"
#include "runtime/plan/interval_map.h"
#include "runtime/plan/verifier_error.h"
#include "runtime/plan/verifier_homes.h"
#include "runtime/plan/verifier_operands.h"

namespace strata::verifier {
namespace {

constexpr uint32_t kStart = ~0u;  // "written before the plan began"

/// What a byte range holds.
struct Cell {
  Value value;
  int64_t origin = 0;  // address of the value's first byte; some parts may be elsewhere
  uint32_t writer = kStart;
};

/// How a range of symbols differs from what was looked for.
struct Mismatch {
  int64_t at;
  const Cell* found;  // null: nothing defined is there
};

class SymbolicMemory {
 public:
  void Write(TierKind tier, int64_t offset, int64_t size_bytes, const Cell& cell) {
    auto& memory = tiers_[static_cast<size_t>(tier)];
    if (tier == TierKind::kNvme) ForgetCut(offset, size_bytes);
    if (cell.value.role == Role::kScratch) {
      memory.Erase(offset, offset + size_bytes);
    } else {
      memory.Assign(offset, offset + size_bytes, cell);
    }
  }

  /// Calls report(mismatch) for the first byte of the range that no cell covers, or
  /// whose cell does not satisfy `fits`. On nvme one cell must be the whole range:
  /// what was written together is read together. Returns whether all was well.
  template <typename Fits, typename Report>
  bool Read(TierKind tier, int64_t offset, int64_t size_bytes, const Fits& fits,
            const Report& report) const {
    const auto& memory = tiers_[static_cast<size_t>(tier)];
    if (tier == TierKind::kNvme) {
      const auto it = memory.ranges().find(offset);
      const bool whole =
          it != memory.ranges().end() && it->second.end == offset + size_bytes;
      if (whole && fits(it->second.value)) return true;
      report(Mismatch{offset, whole ? &it->second.value : nullptr});
      return false;
    }
    int64_t position = offset;
    bool well = true;
    memory.ForEach(offset, offset + size_bytes,
                   [&](int64_t begin, int64_t end, const Cell& cell) {
                     if (begin > position) return false;
                     well = fits(cell);
                     if (!well) report(Mismatch{position, &cell});
                     position = end;
                     return well;
                   });
    if (well && position < offset + size_bytes) {
      well = false;
      report(Mismatch{position, nullptr});
    }
    return well;
  }

 private:
  // A request that is overwritten in part can no longer be read back as a whole.
  void ForgetCut(int64_t offset, int64_t size_bytes) {
    auto& nvme = tiers_[static_cast<size_t>(TierKind::kNvme)];
    int64_t begin = offset, end = offset + size_bytes;
    nvme.ForEach(offset, end, [&](int64_t first, int64_t last, const Cell&) {
      begin = std::min(begin, first);
      end = std::max(end, last);
      return true;
    });
    if (begin < offset || end > offset + size_bytes) nvme.Erase(begin, end);
  }

  std::array<IntervalMap<Cell>, kTierCount> tiers_;
};

class AbstractExecution {
 public:
  AbstractExecution(const PlanSet& set, const Plan& plan) : set_(set), plan_(plan) {
    for (const HomeContent& home : StartOf(set, plan.key)) {
      const Extent& e = home.extent;
      memory_.Write(e.tier, e.offset, e.size_bytes,
                    {home.value, e.offset - home.value_offset, kStart});
    }
    for (const HomeContent& home : Untouchable(set)) {
      const Extent& e = home.extent;
      untouchable_[static_cast<size_t>(e.tier)].Assign(
          e.offset, e.offset + e.size_bytes, home.value);
    }
  }

  absl::Status Run() {
    for (uint32_t op = 0; op < plan_.ops.size(); ++op) {
      const auto accesses = plan_.Accesses(plan_.ops[op]);
      for (const Access& a : accesses) {
        if (a.mode == AccessMode::kRead) STRATA_RETURN_IF_ERROR(Read(op, a));
      }
      for (const Access& a : accesses) {
        if (a.mode == AccessMode::kWrite) STRATA_RETURN_IF_ERROR(Write(op, a));
      }
    }
    return CheckEnd();
  }

 private:
  // A forward or backward reads the weights of this step: where the step before did not
  // clip, those that were speculated are the same.
  bool TakesSpeculated(const Op& op, const Access& access) const {
    return (op.code == OpCode::kForward || op.code == OpCode::kBackward) &&
           access.value.role == Role::kWeight && plan_.key.start == Border::kPending;
  }

  absl::Status Read(uint32_t op, const Access& a) const {
    const int64_t origin = a.offset - a.value_offset;
    const bool speculated = TakesSpeculated(plan_.ops[op], a);
    const Value stand_in{Role::kSpeculated, a.value.layer, 0};
    const auto fits = [&](const Cell& cell) {
      return cell.origin == origin &&
             (cell.value == a.value || (speculated && cell.value == stand_in));
    };
    absl::Status status;
    memory_.Read(a.tier, a.offset, a.size_bytes, fits, [&](const Mismatch& mismatch) {
      status =
          OpError(set_.trace, plan_, op, "reads ", ToString(a.value), "+",
                  a.value_offset, " at ", RangeName(a.tier, a.offset, a.size_bytes),
                  ", but finds ", Found(mismatch));
    });
    return status;
  }

  absl::Status Write(uint32_t op, const Access& a) {
    const int64_t end = a.offset + a.size_bytes;
    absl::Status status;
    untouchable_[static_cast<size_t>(a.tier)].ForEach(
        a.offset, end, [&](int64_t, int64_t, const Value& value) {
          status = OpError(set_.trace, plan_, op, "writes ",
                           RangeName(a.tier, a.offset, a.size_bytes), ", the home of ",
                           ToString(value), ", which no plan may change");
          return false;
        });
    STRATA_RETURN_IF_ERROR(status);
    memory_.Write(a.tier, a.offset, a.size_bytes,
                  {a.value, a.offset - a.value_offset, op});
    // Flags have no version: the host's copy is stale once an update has changed one.
    const Extent& copy = set_.layout.flags_host;
    if (a.operand == Operand::kFlags && a.tier == TierKind::kDevice) {
      memory_.Write(copy.tier, copy.offset + a.value_offset, a.size_bytes,
                    {{Role::kScratch, 0, 0}, 0, op});
    }
    return absl::OkStatus();
  }

  absl::Status CheckEnd() const {
    for (const HomeContent& home : EndOf(set_, plan_.key)) {
      const Extent& e = home.extent;
      const int64_t origin = e.offset - home.value_offset;
      absl::Status status;
      memory_.Read(
          e.tier, e.offset, e.size_bytes,
          [&](const Cell& cell) {
            return cell.origin == origin && cell.value == home.value;
          },
          [&](const Mismatch& mismatch) {
            status = PlanError(plan_, "ends without ", ToString(home.value), "+",
                               home.value_offset, " at its home ",
                               RangeName(e.tier, e.offset, e.size_bytes), ": finds ",
                               Found(mismatch));
          });
      STRATA_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  std::string Found(const Mismatch& mismatch) const {
    if (mismatch.found == nullptr) {
      return absl::StrCat("nothing defined (or not as it was written) at ",
                          mismatch.at);
    }
    const Cell& cell = *mismatch.found;
    return absl::StrCat(
        ToString(cell.value), "+", mismatch.at - cell.origin, " at ", mismatch.at,
        cell.writer == kStart
            ? " from before the plan"
            : absl::StrCat(" of ", OpName(set_.trace, plan_, cell.writer)));
  }

  const PlanSet& set_;
  const Plan& plan_;
  SymbolicMemory memory_;
  std::array<IntervalMap<Value>, kTierCount> untouchable_;
};

}  // namespace

absl::Status CheckValues(const PlanSet& set, const Plan& plan) {
  return AbstractExecution(set, plan).Run();
}

}  // namespace strata::verifier
