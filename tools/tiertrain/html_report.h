/// report.html: what a run did, for a person to look at. One file that needs no other:
/// a page that still opens when the run's machine is gone. Its numbers are
/// report.json's, and it carries that file's text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "tools/tiertrain/loop.h"
#include "tools/tiertrain/setup.h"

namespace strata {

/// The page for `report`, the contents of report.json. Every number that stands there
/// too is a <data> element whose data-of is its JSON pointer.
std::string HtmlReport(const TrainingRun& run, const RunSummary& summary,
                       const nlohmann::ordered_json& report);

namespace internal {
/// The page's template, with {{names}} where HtmlReport puts something.
extern const char kReportPage[];
}  // namespace internal

}  // namespace strata
