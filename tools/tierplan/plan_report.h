/// tierplan's answer, as text and as JSON.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "tools/tierplan/plan_question.h"

namespace strata {

/// One size of device memory in a sweep.
struct SweepRow {
  int64_t device_bytes = 0;
  bool fits = false;
  double step_seconds = 0;
  TierBytes arenas;
};

/// `planned` holds the plan, or why nothing fits.
std::string PlanText(const PlanQuestion& question,
                     const absl::StatusOr<PlannedStep>& planned,
                     const std::vector<SweepRow>& sweep);
std::string PlanJson(const PlanQuestion& question,
                     const absl::StatusOr<PlannedStep>& planned,
                     const std::vector<SweepRow>& sweep);

}  // namespace strata
