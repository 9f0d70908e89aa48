#include "tools/tiertrain/html_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "runtime/base/size.h"
#include "runtime/plan/layout.h"
#include "tools/tiertrain/charts.h"
#include "tools/tiertrain/memory_curve.h"
#include "tools/tiertrain/step_view.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCurveParts = 250;

/// A lane that the compute lane may wait for: all but itself.
std::vector<Lane> OtherLanes() {
  std::vector<Lane> lanes;
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (static_cast<Lane>(lane) != Lane::kCompute)
      lanes.push_back(static_cast<Lane>(lane));
  }
  return lanes;
}

std::string WaitStyle(Lane lane) { return absl::StrCat("w", static_cast<int>(lane)); }

class Page {
 public:
  Page(const TrainingRun& run, const RunSummary& summary, const Json& report)
      : run_(run),
        summary_(summary),
        report_(report),
        set_(run.trainer->plan().set),
        view_(ViewLastStep(set_, summary.timeline)) {}

  std::string Text() {
    const std::string json = report_.dump();
    return absl::StrReplaceAll(
        internal::kReportPage,
        {{"{{title}}", absl::StrCat("Strata: ", EscapeHtml(ModelName()))},
         {"{{subtitle}}", Subtitle()},
         {"{{verdict_style}}", WaitingShare() < 0.1 ? "good" : "bad"},
         {"{{verdict}}", Verdict()},
         {"{{verdict_more}}", Pacemaker()},
         {"{{verdict_bars}}", VerdictBars()},
         {"{{verdict_legend}}", VerdictLegend()},
         {"{{tiles}}", Tiles()},
         {"{{gantt_caption}}", GanttCaption()},
         {"{{gantt}}", view_ ? Gantt(*view_) : ""},
         {"{{gantt_legend}}", view_ ? GanttLegend(*view_) : ""},
         {"{{lane_table}}", LaneTable()},
         {"{{memory_table}}", MemoryRows()},
         {"{{memory_charts}}", MemoryCharts()},
         {"{{loss_caption}}", LossCaption()},
         {"{{loss_chart}}", LossChart()},
         {"{{report_text}}", EscapeHtml(report_.dump(2))},
         // Such characters stand in strings only, where JSON knows them by number.
         {"{{report_json}}",
          absl::StrReplaceAll(
              json, {{"<", "\\u003c"}, {">", "\\u003e"}, {"&", "\\u0026"}})}});
  }

 private:
  using Format = std::function<std::string(double)>;

  double Number(const std::string& pointer) const {
    const Json::json_pointer path(pointer);
    if (!report_.contains(path)) return 0;
    const Json& value = report_.at(path);
    return value.is_number() ? value.get<double>() : 0;
  }

  /// A number of report.json as a person reads it, with where it stands there.
  std::string Show(const std::string& pointer, const Format& format) const {
    const Json& value = report_.at(Json::json_pointer(pointer));
    return absl::StrCat(
        "<data data-of=\"", pointer, "\" value=\"", value.dump(), "\">",
        value.is_number() ? EscapeHtml(format(Number(pointer))) : "none", "</data>");
  }

  static std::string Bytes(double bytes) {
    return FormatSize(static_cast<int64_t>(bytes));
  }
  static std::string Count(double count) { return absl::StrFormat("%.0f", count); }
  static std::string Loss(double loss) { return absl::StrFormat("%.4f", loss); }

  std::string ModelName() const {
    std::string name = run_.command.model_directory;
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    return name.substr(name.rfind('/') + 1);
  }

  std::string Subject() const { return run_.cuda ? "The card" : "The compute lane"; }

  std::string Subtitle() const {
    return absl::StrCat(Show("/parameters", Count), " parameters, ",
                        Name(run_.config.dtype), ", ", Show("/steps", Count),
                        " steps of ", run_.sizes.micro_batches, " micro-batch(es) of ",
                        run_.sizes.rows, " row(s), on ",
                        EscapeHtml(run_.device->name()), "; ",
                        Show("/trained_tokens", Count), " tokens trained");
  }

  double Seconds() const { return Number("/measured/seconds"); }
  double Share(double seconds) const { return Seconds() > 0 ? seconds / Seconds() : 0; }
  static std::string Pointer(const char* group, Lane lane) {
    return absl::StrCat(group, "/", Name(lane));
  }
  double Busy(Lane lane) const {
    return Number(Pointer("/measured/busy_seconds", lane));
  }
  double Stall(Lane lane) const {
    return Number(Pointer("/measured/stall_seconds", lane));
  }
  double WaitingShare() const {
    double stall = 0;
    for (const Lane lane : OtherLanes()) stall += Stall(lane);
    return Share(stall);
  }

  std::string Verdict() const {
    if (Seconds() == 0) return "No step was taken.";
    std::vector<Lane> lanes = OtherLanes();
    std::sort(lanes.begin(), lanes.end(),
              [this](Lane a, Lane b) { return Stall(a) > Stall(b); });
    if (WaitingShare() < 0.005) {
      return absl::StrCat(Subject(), " waits for nobody: it computes ",
                          FormatShare(Share(Busy(Lane::kCompute))), " of the step.");
    }
    // Who makes up the first nine tenths is worth a name.
    size_t named = 0;
    for (double share = 0; named < lanes.size() && share <= 0.9 * WaitingShare();) {
      share += Share(Stall(lanes[named++]));
    }
    std::string text = absl::StrCat(Subject(), " waits ", FormatShare(WaitingShare()),
                                    " of the step, for ");
    for (size_t i = 0; i < named; ++i) {
      absl::StrAppend(&text,
                      i == 0          ? ""
                      : i + 1 < named ? ", "
                                      : " and ",
                      Name(lanes[i]));
      if (named == 1) break;
      absl::StrAppend(&text, " (", FormatShare(Share(Stall(lanes[i]))), ")");
    }
    return text + ".";
  }

  std::string Pacemaker() const {
    if (Seconds() == 0) return "";
    Lane busiest = Lane::kCompute;
    for (const Lane lane : OtherLanes()) {
      if (Busy(lane) > Busy(busiest)) busiest = lane;
    }
    std::string text = absl::StrCat("The busiest lane is ", Name(busiest), ", at work ",
                                    FormatShare(Share(Busy(busiest))), " of the step");
    switch (busiest) {
      case Lane::kCompute:
        return text + ": arithmetic sets the pace.";
      case Lane::kHostToDevice:
      case Lane::kDeviceToHost:
        return text +
               ": the link sets the pace. More --device_memory leaves less to move, a "
               "larger step spreads it over more tokens.";
      case Lane::kNvmeRead:
      case Lane::kNvmeWrite:
        return text +
               ": the drive sets the pace. More --host_memory or a second --nvme_path "
               "helps, and a larger step spreads it over more tokens.";
      default:
        return text + ": the CPU's share of the optimizer sets the pace.";
    }
  }

  std::vector<BarPart> Parts(const char* group, double busy) const {
    std::vector<BarPart> parts = {{"busy", "computing", busy}};
    for (const Lane lane : OtherLanes()) {
      parts.push_back({WaitStyle(lane), absl::StrCat("waiting for ", Name(lane)),
                       Number(Pointer(group, lane))});
    }
    return parts;
  }

  std::string VerdictBars() const {
    const auto row = [](const char* label, const std::string& bar) {
      return absl::StrCat("<div class=\"lane\"><span>", label, "</span>", bar,
                          "</div>");
    };
    return absl::StrCat(
        row("measured",
            StackedBar(Parts("/measured/stall_seconds", Busy(Lane::kCompute)),
                       Seconds())),
        row("forecast", StackedBar(Parts("/plan/forecast_stall_seconds",
                                         Number(Pointer("/plan/forecast_busy_seconds",
                                                        Lane::kCompute))),
                                   Number("/plan/forecast_seconds"))));
  }

  std::string VerdictLegend() const {
    std::string text = "<span class=\"key\"><i class=\"busy\"></i>computing</span> ";
    for (const Lane lane : OtherLanes()) {
      if (Stall(lane) + Number(Pointer("/plan/forecast_stall_seconds", lane)) <= 0) {
        continue;
      }
      absl::StrAppend(&text, "<span class=\"key\"><i class=\"", WaitStyle(lane),
                      "\"></i>waiting for ", Name(lane), "</span> ");
    }
    return text;
  }

  std::string Tiles() const {
    const auto tile = [](const std::string& number, const std::string& label) {
      return absl::StrCat("<div><b>", number, "</b><span>", label, "</span></div>");
    };
    return absl::StrCat(
        tile(Show("/tokens_per_second", Count), "tokens a second"),
        tile(Show("/measured/seconds", FormatSeconds),
             absl::StrCat("a step; forecast ",
                          Show("/plan/forecast_seconds", FormatSeconds))),
        tile(Show("/final_loss", Loss), "loss of the last step"),
        tile(Show("/measured/peak_bytes/device", Bytes), "device arena"),
        tile(Show("/measured/peak_bytes/host", Bytes), "host arena"),
        tile(Show("/measured/peak_bytes/nvme", Bytes), "on nvme"),
        tile(Show("/nvme_bytes_written", Bytes), "written to nvme"),
        tile(Show("/clipped_steps", Count),
             absl::StrCat("steps clipped, ", Show("/skipped_steps", Count),
                          " skipped")));
  }

  std::string GanttCaption() const {
    if (!view_) return "No training step was kept.";
    return absl::StrCat(
        "The last step that was kept, ", FormatSeconds(view_->seconds),
        ". A lane does one thing at a time, all lanes work at once; the thin row under "
        "compute shows when it had to wait, in the colour of whom it waited for.");
  }

  std::string LaneTable() const {
    std::string text =
        "<table><thead><tr><th>lane</th><th>busy</th><th>of the step</th>"
        "<th>forecast</th><th>compute waits for it</th><th>of the step</th>"
        "<th>forecast</th></tr></thead><tbody>";
    for (int i = 0; i < kLaneCount; ++i) {
      const auto lane = static_cast<Lane>(i);
      const bool waits = lane != Lane::kCompute;
      if (waits && Busy(lane) + Stall(lane) == 0) continue;
      const auto cell = [](const std::string& content) {
        return absl::StrCat("<td>", content, "</td>");
      };
      absl::StrAppend(
          &text, "<tr>", cell(Name(lane)),
          cell(Show(Pointer("/measured/busy_seconds", lane), FormatSeconds)),
          cell(FormatShare(Share(Busy(lane)))),
          cell(Show(Pointer("/plan/forecast_busy_seconds", lane), FormatSeconds)),
          cell(waits ? Show(Pointer("/measured/stall_seconds", lane), FormatSeconds)
                     : ""),
          cell(waits ? FormatShare(Share(Stall(lane))) : ""),
          cell(waits
                   ? Show(Pointer("/plan/forecast_stall_seconds", lane), FormatSeconds)
                   : ""),
          "</tr>");
    }
    return text + "</tbody></table>";
  }

  std::string MemoryRows() const {
    std::string text =
        "<table><thead><tr><th>memory</th><th>planned</th><th>measured</th></tr>"
        "</thead><tbody>";
    const auto row = [&](const char* label, const std::string& key) {
      absl::StrAppend(&text, "<tr><td>", label, "</td><td>",
                      Show("/plan/" + key, Bytes), "</td><td>",
                      Show("/measured/" + key, Bytes), "</td></tr>");
    };
    row("device arena", "peak_bytes/device");
    row("host arena", "peak_bytes/host");
    row("nvme", "peak_bytes/nvme");
    if (run_.cuda) row("process, on the device", "process_peak_bytes/device");
    row("process, resident in host memory", "process_peak_bytes/host");
    return text + "</tbody></table>";
  }

  std::string MemoryCharts() const {
    if (!view_) return "";
    TierBytes homes;
    if (!MakeHomes(set_.trace, run_.trainer->plan().decisions, &homes).ok()) return "";
    const Plan& plan = set_.plans[static_cast<size_t>(view_->plan)];
    std::vector<int32_t> sequence = {view_->plan};
    if (set_.FindLink(view_->plan, view_->plan) >= 0) sequence.push_back(view_->plan);
    const Forecast forecast = Simulate(set_, sequence, run_.profile);
    std::string text;
    // What is on nvme rests there, the same all the time.
    for (const TierKind tier : {TierKind::kDevice, TierKind::kHost}) {
      text += DrawMemory({.title = Name(tier),
                          .arena_bytes = set_.arena_bytes[tier],
                          .measured_seconds = view_->seconds,
                          .planned_seconds = forecast.seconds,
                          .measured = BytesInUse(plan, tier, homes[tier], view_->ops,
                                                 view_->seconds, kCurveParts),
                          .planned = BytesInUse(plan, tier, homes[tier], forecast.spans,
                                                forecast.seconds, kCurveParts)});
    }
    return text;
  }

  std::string LossCaption() const {
    std::string text = "Mean over the trained tokens of each step";
    for (size_t i = 0; i < summary_.evaluations.size(); ++i) {
      const std::string at = absl::StrCat("/evaluations/", i);
      absl::StrAppend(&text, i == 0 ? "; dots: held-out, " : ", ",
                      Show(at + "/loss", Loss), " at step ",
                      summary_.evaluations[i].step);
    }
    return text + ".";
  }

  std::string LossChart() const {
    std::vector<std::pair<int64_t, double>> evaluations;
    for (const Evaluation& evaluation : summary_.evaluations) {
      evaluations.emplace_back(evaluation.step, evaluation.loss);
    }
    return DrawLosses(summary_.losses, evaluations);
  }

  const TrainingRun& run_;
  const RunSummary& summary_;
  const Json& report_;
  const PlanSet& set_;
  const std::optional<StepView> view_;
};

}  // namespace

std::string HtmlReport(const TrainingRun& run, const RunSummary& summary,
                       const nlohmann::ordered_json& report) {
  return Page(run, summary, report).Text();
}

}  // namespace strata
