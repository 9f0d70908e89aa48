#include "tools/tiertrain/report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/utsname.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/explain_config.h"
#include "model/text_file.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "tools/tiertrain/html_report.h"
#include "tools/tiertrain/process_memory.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kTiers = {TierKind::kDevice, TierKind::kHost, TierKind::kNvme};

/// Bytes of homes, by kind and tier.
std::map<std::string, TierBytes> HomeBytes(const PlanSet& set) {
  std::map<std::string, TierBytes> kinds;
  for (const LayerPlacement& layer : set.layout.layers) {
    kinds["weights"][layer.weights.tier] += layer.weights.size_bytes;
    for (const SliceLayout& slice : layer.slices) {
      kinds["optimizer"][slice.state.tier] += slice.state.size_bytes;
      kinds["gradients"][slice.gradient.tier] += slice.gradient.size_bytes;
      kinds["speculated weights"][slice.speculated.tier] += slice.speculated.size_bytes;
    }
  }
  for (const TierKind tier : kTiers) {
    int64_t homes = 0;
    for (const auto& [kind, bytes] : kinds) homes += kind.empty() ? 0 : bytes[tier];
    kinds["buffers, activations"][tier] = set.arena_bytes[tier] - homes;
  }
  return kinds;
}

// What the process is planned to hold in host memory at most: what it held before, the
// arenas that lie there, and one slice, or the frozen part of a layer, while weights
// are read and written.
int64_t PlannedProcessBytes(const TrainingRun& run) {
  const PlanSet& set = run.trainer->plan().set;
  const StateFormat& format = set.trace.format;
  int64_t piece_bytes = 0;
  for (size_t l = 0; l < set.layout.layers.size(); ++l) {
    for (const SliceLayout& slice : set.layout.layers[l].slices) {
      piece_bytes =
          std::max(piece_bytes, slice.elements() * (4 + format.weight + format.state));
    }
    const LayerTrace& layer = set.trace.layers[l];
    piece_bytes =
        std::max(piece_bytes, (layer.total_elements - layer.trainable_elements) *
                                  (4 + format.weight));
  }
  return run.process_bytes_before + set.arena_bytes.host +
         (run.cuda ? 0 : set.arena_bytes.device) + piece_bytes;
}

Json TiersJson(const TierBytes& bytes) {
  return {{"device", bytes.device}, {"host", bytes.host}, {"nvme", bytes.nvme}};
}

template <typename Lanes>
Json BusyJson(const Lanes& lanes, double steps) {
  Json busy = Json::object();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    busy[Name(static_cast<Lane>(lane))] =
        static_cast<double>(lanes[lane].busy_seconds) / std::max(steps, 1.0);
  }
  return busy;
}

template <typename Lanes>
Json StallJson(const Lanes& lanes, double steps) {
  Json stalls = Json::object();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (static_cast<Lane>(lane) == Lane::kCompute) continue;
    stalls[Name(static_cast<Lane>(lane))] =
        static_cast<double>(lanes[lane].stall_seconds) / std::max(steps, 1.0);
  }
  return stalls;
}

double StepFlops(const StepTrace& trace) {
  double flops = 0;
  for (const LayerTrace& layer : trace.layers) {
    flops += layer.output_bytes > 0 ? layer.forward_flops + layer.backward_flops
                                    : layer.backward_flops;
  }
  return flops * trace.micro_batches;
}

}  // namespace

std::string ExplainPlan(const PlannedStep& plan, int64_t parameters) {
  std::string text = absl::StrFormat("%-22s %14s %14s %14s\n", "where it rests",
                                     "device", "host", "nvme");
  for (const auto& [kind, bytes] : HomeBytes(plan.set)) {
    absl::StrAppendFormat(&text, "%-22s %14s %14s %14s\n", kind,
                          FormatSize(bytes.device), FormatSize(bytes.host),
                          FormatSize(bytes.nvme));
  }
  const TierBytes& arena = plan.set.arena_bytes;
  absl::StrAppendFormat(&text, "%-22s %14s %14s %14s\n", "peak",
                        FormatSize(arena.device), FormatSize(arena.host),
                        FormatSize(arena.nvme));
  int64_t slices = 0, lagged = 0, on_cpu = 0;
  for (const LayerPlacement& layer : plan.set.layout.layers) {
    for (const SliceLayout& slice : layer.slices) {
      slices += 1;
      lagged += slice.mode == UpdateMode::kLagged;
      on_cpu += slice.update_lane == Lane::kCpu;
    }
  }
  absl::StrAppendFormat(&text,
                        "%d parameters in %d slices, %d updated on the CPU, %d with a "
                        "speculated weight; segments "
                        "of %d layers, %d group(s); activations rest in %s memory\n",
                        parameters, slices, on_cpu, lagged,
                        plan.decisions.segment_layers, plan.decisions.groups,
                        Name(plan.decisions.activations));
  absl::StrAppendFormat(&text,
                        "forecast: %.3f s a step, %.3f s is the floor of this plan's "
                        "transfers and arithmetic\n",
                        plan.forecast.seconds, plan.floor_seconds);
  return text;
}

std::string MemoryTable(const TrainingRun& run) {
  const TierBytes planned = run.trainer->plan().set.arena_bytes;
  const TierBytes measured = run.trainer->executor().allocated_bytes();
  std::string text =
      absl::StrFormat("%-22s %14s %14s\n", "memory", "planned", "measured");
  for (const TierKind tier : kTiers) {
    absl::StrAppendFormat(&text, "%-22s %14s %14s\n",
                          absl::StrCat(Name(tier), " arena"), FormatSize(planned[tier]),
                          FormatSize(measured[tier]));
  }
  absl::StrAppendFormat(&text, "%-22s %14s %14s\n", "process, resident",
                        FormatSize(PlannedProcessBytes(run)),
                        FormatSize(ReadProcessMemory().peak_bytes));
  return text;
}

absl::Status WriteReport(const TrainingRun& run, const RunSummary& summary,
                         const std::string& directory) {
  const PlannedStep& plan = run.trainer->plan();
  const double steps = static_cast<double>(summary.timed_steps);
  const double step_seconds = steps > 0 ? summary.totals.seconds / steps : 0;
  const int64_t overhead = run.cuda ? run.cuda->overhead_bytes() : 0;
  Json evaluations = Json::array();
  for (const Evaluation& evaluation : summary.evaluations) {
    evaluations.push_back({{"step", evaluation.step}, {"loss", evaluation.loss}});
  }
  utsname system{};
  uname(&system);
  const double flops = StepFlops(plan.set.trace);
  Json report = {
      {"model", run.command.model_directory},
      {"parameters", run.parameters},
      {"config", EffectiveJson(run.config)},
      {"plan",
       {{"peak_bytes", TiersJson(plan.set.arena_bytes)},
        {"process_peak_bytes",
         {{"device", run.cuda ? plan.set.arena_bytes.device + overhead : 0},
          {"host", PlannedProcessBytes(run)}}},
        {"forecast_seconds", plan.forecast.seconds},
        {"forecast_busy_seconds", BusyJson(plan.forecast.lanes, 1)},
        {"forecast_stall_seconds", StallJson(plan.forecast.lanes, 1)}}},
      {"measured",
       {{"peak_bytes", TiersJson(run.trainer->executor().allocated_bytes())},
        {"process_peak_bytes",
         {{"device", run.cuda ? plan.set.arena_bytes.device + overhead : 0},
          {"host", ReadProcessMemory().peak_bytes}}},
        {"seconds", step_seconds},
        {"busy_seconds", BusyJson(summary.totals.lanes, steps)},
        {"stall_seconds", StallJson(summary.totals.lanes, steps)}}},
      {"steps", summary.state.step},
      {"skipped_steps", summary.state.skipped_steps},
      {"clipped_steps", summary.state.clipped_steps},
      {"trained_tokens", summary.state.trained_tokens},
      {"final_loss", summary.last_loss},
      {"evaluations", evaluations},
      {"nvme_bytes_written",
       run.trainer->store() ? run.trainer->store()->bytes_written() : 0},
      {"tokens_per_second", summary.seconds > 0
                                ? static_cast<double>(summary.tokens) / summary.seconds
                                : 0.0},
      // Against what the machine profile takes for this device's sustained rate.
      {"model_flops_utilization",
       step_seconds > 0 ? Json(flops / step_seconds / run.profile.compute_flops)
                        : Json(nullptr)},
      {"verified", true},
      {"resumed_from", run.resume ? Json(run.resume->directory) : Json(nullptr)},
      {"numerics", ToJson(run.trainer->numerics())},
      {"versions", {{"strata", STRATA_VERSION}}},
      {"machine",
       {{"device", std::string(run.device->name())},
        {"cpus", std::thread::hardware_concurrency()},
        {"kernel", system.release},
        {"profile", run.profile_source}}},
  };
  STRATA_RETURN_IF_ERROR(
      WriteTextFile(absl::StrCat(directory, "/report.json"), report.dump(2) + "\n"));
  return WriteTextFile(absl::StrCat(directory, "/report.html"),
                       HtmlReport(run, summary, report));
}

absl::Status WriteTimeline(const TrainingRun& run, const RunSummary& summary,
                           const std::string& path) {
  const PlanSet& set = run.trainer->plan().set;
  Json events = Json::array();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", lane},
                      {"args", {{"name", Name(static_cast<Lane>(lane))}}}});
  }
  for (const TimelineSpan& span : summary.timeline) {
    const Plan& plan = set.plans[static_cast<size_t>(span.plan)];
    const Op& op = plan.ops[span.op];
    events.push_back(
        {{"name", absl::StrCat(Name(op.code), " ", Describe(set.trace, plan, op))},
         {"cat", ToString(plan.key)},
         {"ph", "X"},
         {"pid", 1},
         {"tid", static_cast<int>(span.lane)},
         {"ts", span.begin_seconds * 1e6},
         {"dur", (span.end_seconds - span.begin_seconds) * 1e6}});
  }
  return WriteTextFile(path, Json{{"traceEvents", events}}.dump());
}

}  // namespace strata
