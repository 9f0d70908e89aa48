/// Plans written by hand: operations with accesses and waits as the test says them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// A set with one plan whose runs may follow each other, on a trace of `layer_names`.
class PlanBuilder {
 public:
  explicit PlanBuilder(std::initializer_list<const char*> layer_names) {
    for (const char* name : layer_names) set_.trace.layers.push_back({.name = name});
    set_.plans.emplace_back();
    set_.layout.layers.resize(layer_names.size());
  }

  /// Appends an operation and returns its index.
  uint32_t Add(Op op, std::initializer_list<Access> accesses,
               std::initializer_list<uint32_t> waits) {
    Plan& plan = set_.plans[0];
    op.first_access = static_cast<uint32_t>(plan.accesses.size());
    op.access_count = static_cast<uint32_t>(accesses.size());
    op.first_wait = static_cast<uint32_t>(plan.waits.size());
    op.wait_count = static_cast<uint32_t>(waits.size());
    for (const Access& access : accesses) {
      plan.accesses.push_back(access);
      int64_t& end = set_.arena_bytes[access.tier];
      end = std::max(end, access.offset + access.size_bytes);
    }
    plan.waits.insert(plan.waits.end(), waits);
    plan.ops.push_back(op);
    plan.result_op = static_cast<uint32_t>(plan.ops.size()) - 1;
    return plan.result_op;
  }

  /// Appends a copy, read or write of a page.
  uint32_t AddTransfer(OpCode code, Lane lane, Extent source, Extent target,
                       std::initializer_list<uint32_t> waits) {
    return Add({.code = code, .lane = lane, .layer = 0},
               {{Operand::kSource,
                 AccessMode::kRead,
                 source.tier,
                 source.offset,
                 source.size_bytes,
                 {Role::kWeight}},
                {Operand::kTarget,
                 AccessMode::kWrite,
                 target.tier,
                 target.offset,
                 target.size_bytes,
                 {Role::kWeight}}},
               waits);
  }
  /// Appends a forward of `layer` that changes a range in place.
  uint32_t AddTask(Lane lane, int32_t layer, Extent range,
                   std::initializer_list<uint32_t> waits) {
    return Add({.code = OpCode::kForward, .lane = lane, .layer = layer},
               {{Operand::kInput,
                 AccessMode::kRead,
                 range.tier,
                 range.offset,
                 range.size_bytes,
                 {}},
                {Operand::kInput,
                 AccessMode::kWrite,
                 range.tier,
                 range.offset,
                 range.size_bytes,
                 {}}},
               waits);
  }

  /// The waits of a run on the run before, sorted by operation.
  PlanSet Build(std::vector<Link::Wait> link, uint32_t result_op) {
    set_.plans[0].result_op = result_op;
    set_.links.push_back({.first = 0, .second = 0, .waits = std::move(link)});
    return set_;
  }

 private:
  PlanSet set_;
};

inline constexpr int64_t kPage = 4096;
inline Extent DevicePage(int64_t page) {
  return {TierKind::kDevice, page * kPage, kPage};
}
inline Extent HostPage(int64_t page) { return {TierKind::kHost, page * kPage, kPage}; }
inline Extent NvmePage(int64_t page) { return {TierKind::kNvme, page * kPage, kPage}; }

}  // namespace strata
