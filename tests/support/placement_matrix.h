/// The settings that may not change a bit, as factors of a test matrix: what a user can
/// pin, and what the planner chooses under a budget.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/pairwise.h"
#include "tests/support/toy_run.h"

namespace strata {

/// Factors of a row, in this order, and their levels.
enum Factor {
  kPlacement,  // all on device, host, nvme; pinned to all three; the planner's choice
  kDepth,      // how far the lanes run ahead: 0, 1, 2
  kSegment,    // layers: 1, 2, all
  kGroups,     // 1, 2
  kUpdate,     // deferred, lagged, in the backward
  kBudget,     // ample; halfway between; about the least that there is a plan for
  kClipping,   // without, with
  kDtype,      // fp32, bf16
  kFactorCount
};
inline constexpr int kLevels[kFactorCount] = {5, 3, 3, 2, 3, 3, 2, 2};

/// Whether there is such a training: updates in the backward cannot be clipped, and
/// what is on the device has nothing to lag behind.
bool IsTraining(const LevelRow& row);

/// "placement 0, depth 1, ..."
std::string Describe(const LevelRow& row);

/// A short training of `config` with the row's arithmetic: clipping and dtype.
/// `max_grad_norm`: some of its steps are above it, some below.
Scenario ScenarioOf(const LevelRow& row, const TransformerConfig& config,
                    double max_grad_norm);

/// What the serial trainer makes of a row's training, computed once for each
/// arithmetic.
class ExpectedTraces {
 public:
  /// `scenario` is ScenarioOf(row, ...).
  const Trace& Of(const LevelRow& row, const Scenario& scenario);

 private:
  std::map<std::tuple<bool, int, int>, Trace> traces_;
};

/// Budgets, pins and overrides of the row for `scenario`.
TrainerOptions OptionsOf(const LevelRow& row, const Scenario& scenario);

}  // namespace strata
