#include "tools/tiertrain/charts.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "runtime/base/size.h"

namespace strata {
namespace {

constexpr double kWidth = 1000;   // of every stretched picture, in its own units
constexpr double kHeight = 100;   // of curves
constexpr double kNearest = 0.7;  // units: what is closer is drawn as one

std::string Svg(absl::string_view style, double height, absl::string_view content) {
  return absl::StrFormat(
      "<svg class=\"%s\" viewBox=\"0 0 %g %g\" preserveAspectRatio=\"none\" "
      "role=\"img\">%s</svg>",
      style, kWidth, height, content);
}

std::string Point(double x, double y) { return absl::StrFormat("%.5g,%.5g ", x, y); }

void AppendRect(std::string& text, absl::string_view style, double x, double width,
                absl::string_view title) {
  absl::StrAppendFormat(&text,
                        "<rect class=\"%s\" x=\"%.5g\" y=\"0\" width=\"%.5g\" "
                        "height=\"10\"><title>%s</title></rect>",
                        style, x, width, EscapeHtml(title));
}

std::string StyleOf(SpanKind kind) { return absl::StrCat("k", static_cast<int>(kind)); }

// Neighbours of one kind that no eye could tell apart become one.
std::string DrawLane(const StepView& view, Lane lane) {
  const double scale = kWidth / view.seconds;
  std::string rects;
  for (size_t i = 0; i < view.spans.size(); ++i) {
    const ViewSpan& span = view.spans[i];
    if (span.lane != lane) continue;
    double end = span.end_seconds;
    size_t last = i;
    while (last + 1 < view.spans.size() && view.spans[last + 1].lane == lane &&
           view.spans[last + 1].kind == span.kind &&
           (view.spans[last + 1].begin_seconds - end) * scale < kNearest &&
           (view.spans[last + 1].end_seconds - span.begin_seconds) * scale <
               8 * kNearest) {
      end = std::max(end, view.spans[++last].end_seconds);
    }
    const std::string more =
        last == i ? "" : absl::StrCat(" and ", last - i, " more like it");
    AppendRect(
        rects, StyleOf(span.kind), span.begin_seconds * scale,
        std::max((end - span.begin_seconds) * scale, 0.3),
        absl::StrCat(span.label, more, ", ", FormatSeconds(end - span.begin_seconds)));
    i = last;
  }
  return rects;
}

std::string DrawWaits(const StepView& view) {
  const double scale = kWidth / view.seconds;
  std::string rects;
  for (const ViewWait& wait : view.waits) {
    const double width = (wait.end_seconds - wait.begin_seconds) * scale;
    if (width < 0.2) continue;
    AppendRect(
        rects, absl::StrCat("w", static_cast<int>(wait.lane)),
        wait.begin_seconds * scale, width,
        absl::StrCat(wait.lane == Lane::kCompute
                         ? "idle"
                         : absl::StrCat("waits for ", Name(wait.lane)),
                     ", ", FormatSeconds(wait.end_seconds - wait.begin_seconds)));
  }
  return rects;
}

std::string Row(absl::string_view label, absl::string_view style,
                absl::string_view rects) {
  return absl::StrCat("<div class=\"lane ", style, "\"><span>", label, "</span>",
                      Svg("bar", 10, rects), "</div>\n");
}

// 0, quarter, half, ... of `seconds` under a picture.
std::string TimeAxis(double seconds) {
  std::string text = "<div class=\"axis\">";
  for (int quarter = 0; quarter <= 4; ++quarter) {
    absl::StrAppend(&text, "<span>",
                    quarter == 0 ? "0" : FormatSeconds(seconds * quarter / 4),
                    "</span>");
  }
  return text + "</div>";
}

std::string CurvePoints(const std::vector<int64_t>& bytes, double width, double top) {
  std::string points;
  const double step = width / static_cast<double>(bytes.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double y = kHeight * (1 - static_cast<double>(bytes[i]) / top);
    points += Point(static_cast<double>(i) * step, y);
    points += Point(static_cast<double>(i + 1) * step, y);
  }
  return points;
}

/// Losses over steps, in the picture's units.
struct LossScale {
  double lowest, highest;
  double first_step, last_step;
  double X(double step) const {
    return last_step > first_step
               ? kWidth * (step - first_step) / (last_step - first_step)
               : kWidth / 2;
  }
  double Y(double loss) const {
    return kHeight * (highest - loss) / (highest - lowest);
  }
};

// At most 400 points, each the mean of as many steps.
std::string LossPoints(std::span<const double> losses, const LossScale& scale) {
  const size_t bucket = (losses.size() + 399) / 400;
  std::string points;
  for (size_t first = 0; first < losses.size(); first += bucket) {
    double sum = 0, steps = 0;
    for (size_t i = first; i < std::min(first + bucket, losses.size()); ++i) {
      if (!std::isfinite(losses[i])) continue;
      sum += losses[i];
      ++steps;
    }
    if (steps == 0) continue;
    const double middle =
        static_cast<double>(first + std::min(first + bucket, losses.size()) + 1) / 2;
    points += Point(scale.X(middle), scale.Y(sum / steps));
  }
  return points;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  return absl::StrReplaceAll(
      text,
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string FormatSeconds(double seconds) {
  if (seconds >= 100) return absl::StrFormat("%.0f s", seconds);
  if (seconds >= 1) return absl::StrFormat("%.3g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g us", seconds * 1e6);
}

std::string FormatShare(double share) {
  return share > 0 && share < 0.0095 ? absl::StrFormat("%.1f %%", 100 * share)
                                     : absl::StrFormat("%.0f %%", 100 * share);
}

std::string StackedBar(const std::vector<BarPart>& parts, double whole) {
  std::string rects;
  double done = 0;
  for (const BarPart& part : parts) {
    if (part.value <= 0 || whole <= 0) continue;
    AppendRect(rects, part.style, done / whole * kWidth, part.value / whole * kWidth,
               absl::StrCat(part.label, ", ", FormatShare(part.value / whole)));
    done += part.value;
  }
  return Svg("bar", 10, rects);
}

std::string Gantt(const StepView& view) {
  std::string text;
  for (int i = 0; i < kLaneCount; ++i) {
    const auto lane = static_cast<Lane>(i);
    const std::string rects = DrawLane(view, lane);
    if (rects.empty()) continue;
    absl::StrAppend(&text, Row(Name(lane), "", rects));
    if (lane == Lane::kCompute) {
      absl::StrAppend(&text, Row("waits", "waits", DrawWaits(view)));
    }
  }
  return text + absl::StrCat("<div class=\"lane\"><span></span>",
                             TimeAxis(view.seconds), "</div>");
}

std::string GanttLegend(const StepView& view) {
  std::array<bool, kSpanKindCount> occurs = {};
  for (const ViewSpan& span : view.spans) occurs[static_cast<size_t>(span.kind)] = true;
  std::string text;
  for (int i = 0; i < kSpanKindCount; ++i) {
    if (!occurs[static_cast<size_t>(i)]) continue;
    absl::StrAppend(&text, "<span class=\"key\"><i class=\"k", i, "\"></i>",
                    Name(static_cast<SpanKind>(i)), "</span> ");
  }
  return text;
}

std::string DrawMemory(const MemoryChart& chart) {
  const double top = static_cast<double>(std::max<int64_t>(chart.arena_bytes, 1));
  const double seconds = std::max(chart.measured_seconds, chart.planned_seconds);
  const double measured_width = kWidth * chart.measured_seconds / seconds;
  const std::string area =
      absl::StrCat("<polygon class=\"area\" points=\"", Point(0, kHeight),
                   CurvePoints(chart.measured, measured_width, top),
                   Point(measured_width, kHeight), "\"/>");
  const std::string line = absl::StrCat(
      "<polyline class=\"planned\" points=\"",
      CurvePoints(chart.planned, kWidth * chart.planned_seconds / seconds, top),
      "\"/>");
  return absl::StrCat("<figure><figcaption><b>", EscapeHtml(chart.title),
                      "</b> <span>top of the picture: the arena, ",
                      FormatSize(chart.arena_bytes), "</span></figcaption>",
                      Svg("curve", kHeight, area + line), TimeAxis(seconds),
                      "</figure>\n");
}

std::string DrawLosses(std::span<const double> losses,
                       std::span<const std::pair<int64_t, double>> evaluations) {
  LossScale scale{.lowest = std::numeric_limits<double>::infinity(),
                  .highest = -std::numeric_limits<double>::infinity(),
                  .first_step = 1,
                  .last_step = static_cast<double>(losses.size())};
  const auto widen = [&scale](double loss) {
    if (!std::isfinite(loss)) return;
    scale.lowest = std::min(scale.lowest, loss);
    scale.highest = std::max(scale.highest, loss);
  };
  for (const double loss : losses) widen(loss);
  for (const auto& [step, loss] : evaluations) {
    widen(loss);
    scale.first_step = std::min(scale.first_step, static_cast<double>(step));
  }
  if (!std::isfinite(scale.lowest)) return "<p>No step had a finite loss.</p>";
  if (scale.highest == scale.lowest) scale.highest += 1e-6;
  std::string content = absl::StrCat("<polyline class=\"loss\" points=\"",
                                     LossPoints(losses, scale), "\"/>");
  for (const auto& [step, loss] : evaluations) {
    if (!std::isfinite(loss)) continue;
    // A line of no length with round ends is a dot that stretching does not distort.
    absl::StrAppendFormat(
        &content,
        "<path class=\"dot\" d=\"M%.5g %.5gh0.01\"><title>step %d, held-out loss "
        "%.4f</title></path>",
        scale.X(static_cast<double>(step)), scale.Y(loss), step, loss);
  }
  return absl::StrFormat(
      "<figure><figcaption><span>%.4f at the top, %.4f at the bottom</span>"
      "</figcaption>%s<div class=\"axis\"><span>step %.0f</span><span>step %d</span>"
      "</div></figure>",
      scale.highest, scale.lowest, Svg("curve", kHeight, content), scale.first_step,
      losses.size());
}

}  // namespace strata
