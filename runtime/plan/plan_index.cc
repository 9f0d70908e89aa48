#include "runtime/plan/plan_index.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

bool IsPartOf(const Extent& part, const Extent& whole) {
  return part.tier == whole.tier && part.offset >= whole.offset &&
         part.offset + part.size_bytes <= whole.offset + whole.size_bytes;
}

}  // namespace

PlanIndex::PlanIndex(const StepTrace& trace, const Plan& plan)
    : names(plan.ops.size()), moved_bytes(plan.ops.size()) {
  for (uint32_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    lanes[static_cast<size_t>(op.lane)].push_back(i);
    const bool is_transfer = op.code == OpCode::kRead || op.code == OpCode::kWrite;
    STRATA_CHECK(is_transfer ==
                 (op.lane == Lane::kNvmeRead || op.lane == Lane::kNvmeWrite));
    if (is_transfer) names[i] = Describe(trace, plan, op);
    if (is_transfer || op.code == OpCode::kCopy) {
      moved_bytes[i] = AccessOf(plan, op, Operand::kSource).size_bytes;
    }
  }
}

LinkIndex::LinkIndex(const Link& link, size_t op_count)
    : waits_(link.waits.data()), first_(op_count + 1) {
  size_t next = 0;
  for (uint32_t op = 0; op < op_count; ++op) {
    first_[op] = static_cast<uint32_t>(next);
    while (next < link.waits.size() && link.waits[next].op == op) ++next;
  }
  STRATA_CHECK(next == link.waits.size());  // sorted by operation
  first_[op_count] = static_cast<uint32_t>(next);
}

const Access& AccessOf(const Plan& plan, const Op& op, Operand operand) {
  const auto accesses = plan.Accesses(op);
  const auto found = std::find_if(
      accesses.begin(), accesses.end(),
      [operand](const Access& access) { return access.operand == operand; });
  STRATA_CHECK(found != accesses.end());
  return *found;
}

std::string DescribeHome(const PlanSet& set, const Extent& extent) {
  for (size_t l = 0; l < set.layout.layers.size(); ++l) {
    const LayerPlacement& layer = set.layout.layers[l];
    const std::string& name = set.trace.layers[l].name;
    if (IsPartOf(extent, layer.weights)) return absl::StrCat(name, "/weight");
    for (size_t s = 0; s < layer.slices.size(); ++s) {
      const SliceLayout& slice = layer.slices[s];
      const char* role = IsPartOf(extent, slice.state)        ? "state"
                         : IsPartOf(extent, slice.gradient)   ? "gradient"
                         : IsPartOf(extent, slice.speculated) ? "speculated"
                                                              : nullptr;
      if (role != nullptr) return absl::StrCat(name, "/", role, "[", s, "]");
    }
  }
  return absl::StrCat(Name(extent.tier), " at ", extent.offset);
}

std::vector<HostRange> NvmeHostRanges(const PlanSet& set) {
  constexpr int64_t kPageBytes = 4 * kKiB;
  std::vector<HostRange> all;
  for (const Plan& plan : set.plans) {
    for (const Op& op : plan.ops) {
      if (op.code != OpCode::kRead && op.code != OpCode::kWrite) continue;
      for (const Access& access : plan.Accesses(op)) {
        if (access.tier != TierKind::kHost) continue;
        all.push_back({access.offset / kPageBytes * kPageBytes,
                       AlignUp(access.offset + access.size_bytes, kPageBytes)});
      }
    }
  }
  std::sort(all.begin(), all.end(),
            [](const HostRange& a, const HostRange& b) { return a.begin < b.begin; });
  std::vector<HostRange> merged;
  for (const HostRange& range : all) {
    if (merged.empty() || range.begin >= merged.back().end + kNvmeRangeGapBytes) {
      merged.push_back(range);
    } else {
      merged.back().end = std::max(merged.back().end, range.end);
    }
  }
  return merged;
}

}  // namespace strata
