/// What a run says about itself: the plan before, report.json and the table after.
#pragma once

#include <absl/status/status.h>

#include <string>

#include "tools/tiertrain/loop.h"
#include "tools/tiertrain/setup.h"

namespace strata {

/// The plan as a person reads it: bytes of each kind in each tier, peaks, forecast.
std::string ExplainPlan(const PlannedStep& plan, int64_t parameters);

/// "device 1.20 GiB planned, 1.20 GiB allocated ..." for each tier, and the process.
std::string MemoryTable(const TrainingRun& run);

/// report.json in `directory`, and report.html, which shows it.
absl::Status WriteReport(const TrainingRun& run, const RunSummary& summary,
                         const std::string& directory);

/// Chrome trace of the last steps.
absl::Status WriteTimeline(const TrainingRun& run, const RunSummary& summary,
                           const std::string& path);

}  // namespace strata
