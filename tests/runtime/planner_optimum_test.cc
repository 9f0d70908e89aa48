// The planner's choice against the best of all decisions, where these can be counted.

#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <limits>
#include <vector>

#include "runtime/plan/compile.h"
#include "runtime/plan/planner.h"
#include "runtime/plan/simulator.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

constexpr TierKind kTiers[] = {TierKind::kDevice, TierKind::kHost, TierKind::kNvme};

/// Three layers of which one is trained, in one slice: its state, gradient and
/// speculated weight, and the weights of the three are all shards that there are.
StepTrace SixShards(std::mt19937& random) {
  StepTrace trace;
  trace.tile_elements = 2048;
  trace.format = {2, 10, 2};
  const auto pick = [&random](int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random);
  };
  trace.micro_batches = pick(1, 2);
  trace.input_bytes = 4096;
  trace.updates_wait_for_norm = pick(0, 3) > 0;
  const int32_t trained = pick(0, 2);
  for (int32_t l = 0; l < 3; ++l) {
    LayerTrace layer;
    layer.name = "layer." + std::to_string(l);
    layer.total_elements = pick(8, 64) * trace.tile_elements;
    layer.trainable_elements = l == trained ? layer.total_elements : 0;
    layer.output_bytes = l == 2 ? 0 : 4096 * pick(1, 16);
    layer.saved_bytes = l == 2 ? 0 : 4096 * pick(0, 4);
    layer.backward_workspace_bytes = 8192;
    layer.forward_flops = 1e9 * pick(1, 30);
    layer.backward_flops = 2 * layer.forward_flops;
    trace.layers.push_back(layer);
  }
  return trace;
}

/// Rates at which transfers of such a trace take as long as its computations.
MachineProfile SlowMachine() {
  MachineProfile profile;
  profile.compute_flops = 1e13;
  profile.host_to_device = profile.device_to_host = 2e8;
  profile.both_directions = 3.5e8;
  profile.host_memory = 8e8;
  profile.nvme_read = profile.nvme_write = 1e8;
  return profile;
}

/// Every decision there is for the trace, in the sizes of buffers that the planner has.
class AllDecisions {
 public:
  explicit AllDecisions(const StepTrace& trace) : trace_(trace) {}

  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const int32_t depth : {0, 1}) {
      for (const int32_t segment : {1, 2}) {
        for (int32_t groups = 1; groups <= trace_.micro_batches; ++groups) {
          for (const TierKind activations : kTiers) {
            Decisions decisions;
            decisions.segment_layers = segment;
            decisions.groups = groups;
            decisions.activations = activations;
            decisions.weight_slots = 1 + depth;
            decisions.state_slots = depth == 0 ? 1 : 4;
            decisions.activation_slots = 1 + depth;
            decisions.stage_slots = depth == 0 ? 1 : 4;
            decisions.updates_between = decisions.passes_activations = depth > 0;
            ForEachHome(decisions, visit);
          }
        }
      }
    }
  }

 private:
  template <typename Visit>
  void ForEachHome(Decisions& decisions, const Visit& visit) const {
    decisions.layers.resize(3);
    for (const TierKind first : kTiers) {
      for (const TierKind second : kTiers) {
        for (const TierKind third : kTiers) {
          const TierKind weights[] = {first, second, third};
          for (size_t l = 0; l < 3; ++l) {
            decisions.layers[l].weights = weights[l];
            decisions.layers[l].slices.clear();
          }
          ForEachSlice(decisions, visit);
        }
      }
    }
  }

  template <typename Visit>
  void ForEachSlice(Decisions& decisions, const Visit& visit) const {
    size_t trained = 0;
    while (trace_.layers[trained].trainable_elements == 0) ++trained;
    SliceDecision slice;
    slice.end = trace_.layers[trained].trainable_elements;
    for (const UpdateMode mode :
         {UpdateMode::kImmediate, UpdateMode::kDeferred, UpdateMode::kLagged}) {
      for (const Lane lane : {Lane::kCompute, Lane::kCpu}) {
        for (const TierKind state : kTiers) {
          for (const TierKind gradient : kTiers) {
            for (const TierKind speculated : {TierKind::kHost, TierKind::kNvme}) {
              if (mode != UpdateMode::kLagged && speculated == TierKind::kNvme)
                continue;
              slice.mode = mode;
              slice.update_lane = lane;
              slice.state = state;
              slice.gradient = gradient;
              slice.speculated = speculated;
              decisions.layers[trained].slices = {slice};
              visit(decisions);
            }
          }
        }
      }
    }
  }

  const StepTrace& trace_;
};

// Of the steady step; infinity where it does not fit.
double SecondsOf(const PlanRequest& request, const Decisions& decisions) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::vector<PlanKey> keys = PlanKeys(request.trace, decisions, request.plans);
  const auto need = MeasureArenas(request.trace, decisions, keys);
  if (!need.ok() || need->device > request.budgets.device_bytes ||
      need->host > request.budgets.host_bytes ||
      need->nvme > request.budgets.nvme_bytes) {
    return kNever;
  }
  size_t steady = 0;
  while (steady < keys.size() && keys[steady].start != Border::kPending) ++steady;
  if (steady == keys.size()) steady = 0;
  const auto set = CompilePlanSet(request.trace, decisions, {&keys[steady], 1});
  EXPECT_TRUE(set.ok()) << set.status();
  return Simulate(*set, std::vector<int32_t>(3, 0), request.profile).seconds;
}

TEST(PlannerOptimum, IsAtMostATenthBehindTheBestOfAllDecisions) {
  std::mt19937 random(1);
  double worst = 1;
  int compared = 0;
  for (int i = 0; i < 12; ++i) {
    PlanRequest request;
    request.trace = SixShards(random);
    request.plans = {{request.trace.micro_batches}, false};
    request.profile = SlowMachine();
    const auto bytes = [&random](double low, double high) {
      return static_cast<int64_t>(
          std::exp2(std::uniform_real_distribution<double>(low, high)(random)));
    };
    request.budgets = {bytes(19, 22), bytes(19, 22), bytes(17, 22)};
    double best = std::numeric_limits<double>::infinity();
    AllDecisions(request.trace).ForEach([&](const Decisions& decisions) {
      best = std::min(best, SecondsOf(request, decisions));
    });
    const auto planned = PlanStep(request);
    if (!std::isfinite(best)) continue;  // in smaller slices, something may still fit
    ASSERT_TRUE(planned.ok()) << i << ": " << planned.status();
    ++compared;
    worst = std::max(worst, planned->forecast.seconds / best);
    EXPECT_LE(planned->forecast.seconds, 1.1 * best) << i;
  }
  std::cout << compared << " compared, the worst " << worst << " of the best\n";
  EXPECT_GE(compared, 6);
}

}  // namespace
}  // namespace strata
