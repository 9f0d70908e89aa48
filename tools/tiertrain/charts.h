/// Pictures of a report as SVG and HTML text: no script, no style but class names (the
/// page's template has the colours, light and dark). Every picture stretches to the
/// width it is given; text stands beside the stretched part, not in it.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/tiertrain/step_view.h"

namespace strata {

/// The text with &, <, > and quotes as entities.
std::string EscapeHtml(absl::string_view text);

/// "1.23 s", "45.6 ms", "780 us".
std::string FormatSeconds(double seconds);
/// "12 %"; below one percent with a digit more.
std::string FormatShare(double share);

/// Parts of a whole, side by side.
struct BarPart {
  std::string style;  // class name
  std::string label;
  double value = 0;
};
std::string StackedBar(const std::vector<BarPart>& parts, double whole);

/// Lanes over one step, and what the compute lane waited for.
std::string Gantt(const StepView& view);
/// The colours of the kinds that occur in it.
std::string GanttLegend(const StepView& view);

/// Bytes over a step: measured as an area, planned as a line, each over its own
/// seconds.
struct MemoryChart {
  std::string title;
  int64_t arena_bytes = 0;  // the top of the picture
  double measured_seconds = 0, planned_seconds = 0;
  std::vector<int64_t> measured, planned;  // most in use within equal parts
};
std::string DrawMemory(const MemoryChart& chart);

/// Losses of steps 1, 2, ... (NaN: skipped) as a line, smoothed to their running mean
/// where there are many, and points of (step, loss).
std::string DrawLosses(std::span<const double> losses,
                       std::span<const std::pair<int64_t, double>> evaluations);

}  // namespace strata
