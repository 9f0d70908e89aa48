#include "tools/tierplan/plan_view.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace strata {
namespace {

constexpr TierKind kTiers[] = {TierKind::kDevice, TierKind::kHost, TierKind::kNvme};

TierBytes operator-(TierBytes a, const TierBytes& b) {
  for (const TierKind tier : kTiers) a[tier] -= b[tier];
  return a;
}

/// The most bytes of activations that outlive the forward of their segment and are
/// alive in `tier` at once, in list order: those that the backward reads.
int64_t ActivationPeak(const Plan& plan, TierKind tier) {
  struct Life {
    size_t begin, end;
    int64_t bytes;
  };
  std::map<std::tuple<Value, int64_t>, Life> lives;  // by value and offset
  for (size_t i = 0; i < plan.ops.size(); ++i) {
    for (const Access& access : plan.Accesses(plan.ops[i])) {
      if (access.tier != tier || access.value.role != Role::kActivation) continue;
      const std::tuple key(access.value, access.offset);
      const auto [life, is_new] = lives.try_emplace(key, Life{i, i, access.size_bytes});
      life->second.end = i;
    }
  }
  std::vector<std::pair<size_t, int64_t>> changes;
  for (const auto& [key, life] : lives) {
    changes.emplace_back(life.begin, life.bytes);
    changes.emplace_back(life.end + 1, -life.bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t alive = 0, most = 0;
  for (const auto& [position, bytes] : changes) {
    alive += bytes;
    most = std::max(most, alive);
  }
  return most;
}

TierBytes ActivationBytes(const PlanSet& set) {
  TierBytes peak;
  for (const Plan& plan : set.plans) {
    for (const TierKind tier : kTiers) {
      peak[tier] = std::max(peak[tier], ActivationPeak(plan, tier));
    }
  }
  return peak;
}

}  // namespace

PlanView ViewOf(const PlannedStep& planned) {
  const PlanSet& set = planned.set;
  PlanView view{.arenas = set.arena_bytes};
  TierBytes weights, optimizer, gradients, speculated;
  for (const LayerPlacement& layer : set.layout.layers) {
    weights[layer.weights.tier] += layer.weights.size_bytes;
    for (const SliceLayout& slice : layer.slices) {
      optimizer[slice.state.tier] += slice.state.size_bytes;
      gradients[slice.gradient.tier] += slice.gradient.size_bytes;
      speculated[slice.speculated.tier] += slice.speculated.size_bytes;
      ++view.slices;
      view.lagged_slices += slice.mode == UpdateMode::kLagged;
      view.cpu_slices += slice.update_lane == Lane::kCpu;
    }
  }
  TierBytes buffers = set.arena_bytes - weights - optimizer - gradients - speculated;
  TierBytes activations = ActivationBytes(set);
  for (const TierKind tier : kTiers) {
    activations[tier] = std::min(activations[tier], buffers[tier]);
  }
  buffers = buffers - activations;
  view.kinds = {{"weights", weights},         {"optimizer", optimizer},
                {"gradients", gradients},     {"speculated weights", speculated},
                {"activations", activations}, {"buffers", buffers}};
  return view;
}

}  // namespace strata
