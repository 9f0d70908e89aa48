#include "tests/support/mutations.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/loose_plan.h"

namespace strata {
namespace {

bool IsTransfer(const Op& op) {
  return op.code == OpCode::kCopy || op.code == OpCode::kRead ||
         op.code == OpCode::kWrite;
}

bool IsInside(const Access& access, const Extent& extent) {
  return access.tier == extent.tier && access.offset >= extent.offset &&
         access.offset + access.size_bytes <= extent.offset + extent.size_bytes;
}

// Weights, state, gradients and speculated weights of all layers.
std::vector<Extent> StateHomes(const Layout& layout) {
  std::vector<Extent> homes;
  for (const LayerPlacement& layer : layout.layers) {
    homes.push_back(layer.weights);
    for (const SliceLayout& slice : layer.slices) {
      for (const Extent& e : {slice.state, slice.gradient, slice.speculated}) {
        if (e.size_bytes > 0) homes.push_back(e);
      }
    }
  }
  return homes;
}

class Mutator {
 public:
  Mutator(std::mt19937& random, PlanSet& set) : random_(random), set_(set) {}

  Mutation Apply(MutationKind kind) {
    const auto computes = [](const Op& op) { return !IsTransfer(op); };
    switch (kind) {
      case MutationKind::kDropWait:
        return DropWait();
      case MutationKind::kDropLinkWait:
        return DropLinkWait();
      case MutationKind::kWrongOffset:
        return WrongOffset();
      case MutationKind::kSwapOperations:
        return SwapOperations();
      case MutationKind::kDropOperation:
        return DropOp([](const Op&) { return true; });
      case MutationKind::kEarlyResult:
        return EarlyResult();
      case MutationKind::kShortTransfer:
        return ShortTransfer();
      case MutationKind::kDropWriteBack:
        return DropWriteBack();
      case MutationKind::kDropZero:
        return DropOp([](const Op& op) { return op.code == OpCode::kZero; });
      case MutationKind::kDuplicateUpdate:
        return DuplicateUpdate();
      case MutationKind::kWrongLayer:
        return InOp(computes,
                    [&](LooseOp& op) { op.op.layer = OtherLayer(op.op.layer); });
      case MutationKind::kWrongEpoch:
        return WrongEpoch();
      case MutationKind::kWrongSource:
        return WrongSource();
      case MutationKind::kShrinkArena:
        return ShrinkArena();
      case MutationKind::kDropLink:
        return DropLink();
      case MutationKind::kForwardWait:
        return InList(
            [](const LoosePlan& p, uint32_t op) { return op + 1 < p.ops.size(); },
            [&](LoosePlan& plan, uint32_t op) {
              plan.ops[op].waits.push_back(
                  op + Below(static_cast<uint32_t>(plan.ops.size()) - op));
            });
    }
    return {};
  }

 private:
  uint32_t Below(uint32_t limit) {
    return std::uniform_int_distribution<uint32_t>(0, limit - 1)(random_);
  }
  int32_t AnyPlan() {
    return static_cast<int32_t>(Below(static_cast<uint32_t>(set_.plans.size())));
  }
  int32_t OtherLayer(int32_t layer) {
    const uint32_t count = static_cast<uint32_t>(set_.trace.layer_count());
    return static_cast<int32_t>((static_cast<uint32_t>(layer) + 1 + Below(count - 1)) %
                                count);
  }

  using Chooses = std::function<bool(const LoosePlan&, uint32_t)>;
  using Spoils = std::function<void(LoosePlan&, uint32_t)>;

  // Spoils one of the operations that `chooses`, in one of the plans that have any.
  Mutation InList(const Chooses& chooses, const Spoils& spoils) {
    const int32_t index = AnyPlan();
    LoosePlan plan = Loosen(set_.plans[index]);
    std::vector<uint32_t> candidates;
    for (uint32_t op = 0; op < plan.ops.size(); ++op) {
      if (chooses(plan, op)) candidates.push_back(op);
    }
    if (candidates.empty()) return {};
    const uint32_t op = candidates[Below(static_cast<uint32_t>(candidates.size()))];
    Mutation mutation{absl::StrCat(ToString(plan.key), ", operation ", op, " ",
                                   Describe(set_.trace, set_.plans[index],
                                            set_.plans[index].ops[op])),
                      index, -1};
    spoils(plan, op);
    set_.plans[index] = Tighten(plan);
    return mutation;
  }
  Mutation InOp(const std::function<bool(const Op&)>& chooses,
                const std::function<void(LooseOp&)>& spoils) {
    return InList(
        [&](const LoosePlan& plan, uint32_t op) { return chooses(plan.ops[op].op); },
        [&](LoosePlan& plan, uint32_t op) { spoils(plan.ops[op]); });
  }

  Mutation DropWait() {
    return InList(
        [](const LoosePlan& plan, uint32_t op) { return !plan.ops[op].waits.empty(); },
        [&](LoosePlan& plan, uint32_t op) {
          auto& waits = plan.ops[op].waits;
          waits.erase(waits.begin() + Below(static_cast<uint32_t>(waits.size())));
        });
  }

  Mutation DropLinkWait() {
    const uint32_t index = Below(static_cast<uint32_t>(set_.links.size()));
    Link& link = set_.links[index];
    if (link.waits.empty()) return {};
    const uint32_t wait = Below(static_cast<uint32_t>(link.waits.size()));
    Mutation mutation{absl::StrCat("link ", index, ", wait ", wait), -1,
                      static_cast<int32_t>(index)};
    link.waits.erase(link.waits.begin() + wait);
    return mutation;
  }

  // Moves one operand of one operation by a few blocks. What changes in place moves as
  // one.
  Mutation WrongOffset() {
    return InOp([](const Op&) { return true; },
                [&](LooseOp& op) {
                  Access& access =
                      op.accesses[Below(static_cast<uint32_t>(op.accesses.size()))];
                  const int64_t block = access.tier == TierKind::kDevice ? 256 : 4096;
                  const int64_t limit =
                      (set_.arena_bytes[access.tier] - access.size_bytes) / block;
                  const int64_t from = access.offset / block;
                  const int64_t low = std::max<int64_t>(0, from - 16);
                  const int64_t high = std::min<int64_t>(limit, from + 16);
                  if (low > high) return;
                  const int64_t delta =
                      (low + Below(static_cast<uint32_t>(high - low + 1)) - from) *
                      block;
                  const Operand operand = access.operand;
                  for (Access& a : op.accesses) {
                    if (a.operand == operand) a.offset += delta;
                  }
                });
  }

  Mutation SwapOperations() {
    int32_t index = -1;
    const Mutation mutation = InList(
        [](const LoosePlan& plan, uint32_t op) { return op + 1 < plan.ops.size(); },
        [&](LoosePlan& plan, uint32_t op) {
          plan.SwapWithNext(op);
          index = static_cast<int32_t>(op);
        });
    if (index < 0) return mutation;
    const uint32_t op = static_cast<uint32_t>(index);
    RenumberLinks(mutation.plan, [op](uint32_t other) -> std::vector<uint32_t> {
      return {other == op || other == op + 1 ? 2 * op + 1 - other : other};
    });
    return mutation;
  }

  // What waited for the operation waits for what it waited for, so that nothing but its
  // work is missing.
  Mutation DropOp(const std::function<bool(const Op&)>& chooses) {
    return DropAt(
        [&](const LoosePlan& plan, uint32_t op) { return chooses(plan.ops[op].op); });
  }
  Mutation DropAt(const Chooses& chooses) {
    uint32_t dropped = 0;
    std::vector<uint32_t> instead;
    const Mutation mutation = InList(
        [&](const LoosePlan& plan, uint32_t op) {
          return plan.ops.size() > 1 && chooses(plan, op);
        },
        [&](LoosePlan& plan, uint32_t op) {
          dropped = op;
          instead = plan.ops[op].waits;
          for (uint32_t before = op; before-- > 0;) {
            if (plan.ops[before].op.lane != plan.ops[op].op.lane) continue;
            if (RunsOneByOne(plan.ops[op].op.lane)) instead.push_back(before);
            break;
          }
          for (LooseOp& other : plan.ops) {
            if (std::count(other.waits.begin(), other.waits.end(), op) == 0) continue;
            other.waits.insert(other.waits.end(), instead.begin(), instead.end());
          }
          plan.Erase(op);
        });
    if (mutation.what.empty()) return mutation;
    RenumberLinks(mutation.plan, [&](uint32_t other) -> std::vector<uint32_t> {
      if (other == dropped) return instead;
      return {other - (other > dropped ? 1 : 0)};
    });
    return mutation;
  }

  Mutation EarlyResult() {
    const int32_t index = AnyPlan();
    Plan& plan = set_.plans[index];
    if (plan.result_op == 0) return {};
    plan.result_op = Below(plan.result_op);
    return {absl::StrCat(ToString(plan.key), ", result_op ", plan.result_op), index,
            -1};
  }

  Mutation ShortTransfer() {
    return InOp([](const Op& op) { return IsTransfer(op); },
                [](LooseOp& op) {
                  const int64_t block = op.op.code == OpCode::kCopy ? 256 : 4096;
                  for (Access& access : op.accesses) {
                    access.size_bytes = access.size_bytes > block
                                            ? AlignUp(access.size_bytes / 2, block)
                                            : access.size_bytes / 2;
                  }
                });
  }

  Mutation DropWriteBack() {
    const std::vector<Extent> homes = StateHomes(set_.layout);
    return DropAt([&](const LoosePlan& plan, uint32_t op) {
      const LooseOp& transfer = plan.ops[op];
      return IsTransfer(transfer.op) &&
             std::any_of(homes.begin(), homes.end(), [&](const Extent& home) {
               return IsInside(transfer.accesses.back(), home);
             });
    });
  }

  Mutation DuplicateUpdate() {
    uint32_t first = 0;
    const Mutation mutation =
        InList([](const LoosePlan& plan,
                  uint32_t op) { return plan.ops[op].op.code == OpCode::kUpdate; },
               [&](LoosePlan& plan, uint32_t op) {
                 first = op;
                 plan.Duplicate(op);
               });
    if (mutation.what.empty()) return mutation;
    RenumberLinks(mutation.plan, [first](uint32_t other) -> std::vector<uint32_t> {
      return {other + (other >= first ? 1 : 0)};
    });
    return mutation;
  }

  Mutation WrongEpoch() {
    return InOp(
        [](const Op& op) { return op.code != OpCode::kCopy || op.slice >= 0; },
        [&](LooseOp& op) {
          std::vector<Access*> versioned;
          for (Access& access : op.accesses) {
            if (access.value.role != Role::kScratch) versioned.push_back(&access);
          }
          versioned[Below(static_cast<uint32_t>(versioned.size()))]->value.index +=
              Below(2) == 0 ? 1 : -1;
        });
  }

  // A load from the home of something else of the same size, its values as before.
  Mutation WrongSource() {
    const std::vector<Extent> homes = StateHomes(set_.layout);
    const auto other_home = [&](const Access& source) -> std::optional<Extent> {
      std::vector<Extent> others;
      bool from_home = false;
      for (const Extent& home : homes) {
        from_home |= IsInside(source, home);
        if (home.tier == source.tier && home.size_bytes >= source.size_bytes &&
            !IsInside(source, home)) {
          others.push_back(home);
        }
      }
      if (!from_home || others.empty()) return std::nullopt;
      return others[Below(static_cast<uint32_t>(others.size()))];
    };
    return InList(
        [&](const LoosePlan& plan, uint32_t op) {
          return IsTransfer(plan.ops[op].op) &&
                 other_home(plan.ops[op].accesses[0]).has_value();
        },
        [&](LoosePlan& plan, uint32_t op) {
          plan.ops[op].accesses[0].offset =
              other_home(plan.ops[op].accesses[0])->offset;
        });
  }

  Mutation ShrinkArena() {
    TierKind tier = static_cast<TierKind>(Below(kTierCount));
    if (set_.arena_bytes[tier] == 0) tier = TierKind::kDevice;
    // The end of an arena may be padding; no plan uses that.
    int64_t used = 0;
    for (const Plan& plan : set_.plans) {
      for (const Access& a : plan.accesses) {
        if (a.tier == tier) used = std::max(used, a.offset + a.size_bytes);
      }
    }
    if (used == 0) return {};
    set_.arena_bytes[tier] = used - 1;
    return {absl::StrCat(Name(tier), " arena"), -1, -1};
  }

  Mutation DropLink() {
    const uint32_t index = Below(static_cast<uint32_t>(set_.links.size()));
    set_.links.erase(set_.links.begin() + index);
    return {absl::StrCat("link ", index), -1, -1};
  }

  // Replaces the numbers of a plan's operations in all links.
  void RenumberLinks(int32_t plan,
                     const std::function<std::vector<uint32_t>(uint32_t)>& renumber) {
    const uint32_t last = static_cast<uint32_t>(set_.plans[plan].ops.size()) - 1;
    for (Link& link : set_.links) {
      std::vector<Link::Wait> waits;
      for (const Link::Wait& wait : link.waits) {
        const auto ops = link.second == plan ? renumber(wait.op) : std::vector{wait.op};
        const auto afters =
            link.first == plan ? renumber(wait.after) : std::vector{wait.after};
        for (const uint32_t after : afters) {
          for (const uint32_t op : ops) {
            waits.push_back({link.second == plan ? std::min(op, last) : op, after});
          }
        }
      }
      std::sort(waits.begin(), waits.end(), [](const auto& a, const auto& b) {
        return std::pair(a.op, a.after) < std::pair(b.op, b.after);
      });
      link.waits = std::move(waits);
    }
  }

  std::mt19937& random_;
  PlanSet& set_;
};

}  // namespace

const char* Name(MutationKind kind) {
  constexpr const char* kNames[kMutationKinds] = {
      "dropped wait",      "dropped link wait", "wrong offset",   "swapped operations",
      "dropped operation", "early result",      "short transfer", "dropped write-back",
      "dropped zero",      "duplicated update", "wrong layer",    "wrong epoch",
      "wrong source",      "shrunk arena",      "dropped link",   "forward wait"};
  return kNames[static_cast<int>(kind)];
}

Mutation Mutate(MutationKind kind, std::mt19937& random, PlanSet& set) {
  return Mutator(random, set).Apply(kind);
}

}  // namespace strata
