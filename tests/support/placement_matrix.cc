#include "tests/support/placement_matrix.h"

#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/exact_runs.h"

namespace strata {
namespace {

enum Placement { kAllDevice, kAllHost, kAllNvme, kPinnedMix, kPlanned };
enum Update { kDeferred, kLagged, kInBackward };
enum Budget { kAmple, kHalfway, kLeast };

constexpr TierKind kDevice = TierKind::kDevice;
constexpr TierKind kHost = TierKind::kHost;
constexpr TierKind kNvme = TierKind::kNvme;

PlacementPins PinsOf(int placement) {
  switch (placement) {
    case kAllDevice:
      return {kDevice, kDevice, kDevice, kDevice};
    case kAllHost:
      return {kHost, kHost, kHost, kHost};
    case kAllNvme:
      return {kNvme, kNvme, kNvme, kNvme};
    case kPinnedMix:
      return {kHost, kNvme, kDevice, kNvme};
    default:
      return {};
  }
}

TierBytes ArenasOf(const Scenario& scenario, const TrainerOptions& options) {
  const auto planned = PlanToyTrainer(scenario, options);
  EXPECT_TRUE(planned.ok()) << planned.status();
  return planned.ok() ? planned->set.arena_bytes : TierBytes{};
}

// Raises both budgets until there is a plan.
void GrowUntilPlanned(const Scenario& scenario, TrainerOptions& options) {
  const Budgets start = options.budgets;
  while (absl::IsResourceExhausted(PlanToyTrainer(scenario, options).status())) {
    options.budgets.device_bytes += start.device_bytes / 32;
    options.budgets.host_bytes += start.host_bytes / 32;
  }
}

// Starts at what plans with nothing but buffers on device and host take.
void TakeLeastBudgets(const Scenario& scenario, TrainerOptions& options) {
  TrainerOptions pinned = options;
  if (!pinned.pins.weights) pinned.pins = PinsOf(kAllNvme);
  const TierBytes buffers = ArenasOf(scenario, pinned);
  options.budgets.device_bytes = buffers.device;
  options.budgets.host_bytes = buffers.host;
  GrowUntilPlanned(scenario, options);
}

}  // namespace

bool IsTraining(const LevelRow& row) {
  if (row[kUpdate] == kInBackward && row[kClipping] == 1) return false;
  return row[kUpdate] != kLagged || row[kPlacement] != kAllDevice;
}

std::string Describe(const LevelRow& row) {
  constexpr const char* kNames[] = {"placement", "depth",  "segment",  "groups",
                                    "update",    "budget", "clipping", "dtype"};
  std::string text;
  for (size_t f = 0; f < kFactorCount; ++f) {
    absl::StrAppend(&text, f == 0 ? "" : ", ", kNames[f], " ", row[f]);
  }
  return text;
}

Scenario ScenarioOf(const LevelRow& row, const TransformerConfig& config,
                    double max_grad_norm) {
  Scenario scenario{.events = ShortRunEvents};
  scenario.toy.dtype = row[kDtype] == 0 ? DType::kF32 : DType::kBF16;
  scenario.toy.config = config;
  scenario.optimizer.weight_decay = 0.1;
  scenario.optimizer.max_grad_norm = row[kClipping] == 0 ? 0 : max_grad_norm;
  scenario.optimizer.skip_nonfinite = row[kUpdate] != kInBackward;
  return scenario;
}

const Trace& ExpectedTraces::Of(const LevelRow& row, const Scenario& scenario) {
  Trace& trace = traces_[{row[kUpdate] == kInBackward, row[kClipping], row[kDtype]}];
  if (trace.numbers.empty()) trace = RunSerial(scenario, kShortRunSteps);
  return trace;
}

TrainerOptions OptionsOf(const LevelRow& row, const Scenario& scenario) {
  TrainerOptions options{.budgets = {kAmpleBytes, kAmpleBytes, kAmpleBytes}};
  options.pins = PinsOf(row[kPlacement]);
  options.overrides.depth = row[kDepth];
  options.overrides.segment_layers =
      row[kSegment] == 2 ? static_cast<int32_t>(ToyModel(scenario.toy).layers.size())
                         : row[kSegment] + 1;
  options.overrides.groups = row[kGroups] + 1;
  options.overrides.lagged_share = row[kUpdate] == kLagged ? 1 : 0;
  if (row[kBudget] == kAmple) return options;
  const TrainerOptions unbounded = options;
  TakeLeastBudgets(scenario, options);
  if (row[kBudget] == kLeast) return options;
  const TierBytes ample = ArenasOf(scenario, unbounded);
  Budgets& least = options.budgets;
  least.device_bytes += std::max<int64_t>(ample.device - least.device_bytes, 0) / 2;
  least.host_bytes += std::max<int64_t>(ample.host - least.host_bytes, 0) / 2;
  GrowUntilPlanned(scenario, options);
  return options;
}

}  // namespace strata
