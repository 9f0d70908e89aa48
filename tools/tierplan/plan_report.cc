#include "tools/tierplan/plan_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>

#include <nlohmann/json.hpp>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "tools/tierplan/plan_view.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

double TokensPerSecond(const PlanQuestion& question, double step_seconds) {
  return step_seconds > 0
             ? static_cast<double>(question.tokens_per_step()) / step_seconds
             : 0;
}

std::string Row(absl::string_view title, const std::string& device,
                const std::string& host, const std::string& nvme) {
  return absl::StrFormat("  %-24s %14s %14s %14s\n", title, device, host, nvme);
}

std::string Row(absl::string_view title, const TierBytes& bytes) {
  const auto show = [](int64_t size) { return size == 0 ? "-" : FormatSize(size); };
  return Row(title, show(bytes.device), show(bytes.host), show(bytes.nvme));
}

std::string QuestionText(const PlanQuestion& question) {
  std::string text = absl::StrFormat(
      "%s: %d parameters, %s; %d tokens a step (%d micro-batches of %d x %d), %s\n",
      question.model, ParameterCount(question.shape),
      question.dtype == DType::kBF16 ? "bf16" : "fp32", question.tokens_per_step(),
      question.micro_batches, question.micro_batch.sequences,
      question.micro_batch.length,
      question.optimizer.max_grad_norm > 0
          ? absl::StrFormat("clipped at norm %g", question.optimizer.max_grad_norm)
          : "not clipped");
  absl::StrAppend(&text, "rates of: ", question.machine.profile.name, " (",
                  question.machine.source, ")\n");
  for (const std::string& note : question.notes) {
    absl::StrAppend(&text, "note: ", absl::StrReplaceAll(note, {{"\n", " "}}), "\n");
  }
  return text;
}

std::string MemoryText(const PlanQuestion& question, const PlanView& view) {
  std::string text = "\n" + Row("where everything rests", "device", "host", "nvme");
  for (const KindBytes& kind : view.kinds) text += Row(kind.kind, kind.bytes);
  TierBytes peak = view.arenas;
  if (question.device_overhead_bytes() > 0) {
    text += Row("context and libraries", {question.device_overhead_bytes(), 0, 0});
    peak.device += question.device_overhead_bytes();
  }
  text += Row("peak", peak);
  const Budgets& budgets = question.budgets;
  text += Row("budget", {budgets.device_bytes, budgets.host_bytes, budgets.nvme_bytes});
  return text;
}

std::string ForecastText(const PlanQuestion& question, const PlannedStep& planned,
                         const PlanView& view) {
  const Forecast& forecast = planned.forecast;
  const Decisions& decisions = planned.decisions;
  std::string text = absl::StrFormat(
      "\nforecast: %.3f s a step, %.0f tokens/s; %.2f x the floor of %.3f s\n",
      forecast.seconds, TokensPerSecond(question, forecast.seconds),
      planned.floor_seconds > 0 ? forecast.seconds / planned.floor_seconds : 0,
      planned.floor_seconds);
  absl::StrAppendFormat(&text, "  %-24s %14s %14s\n", "lane", "busy",
                        "computing waits");
  for (int lane = 0; lane < kLaneCount; ++lane) {
    const LaneForecast& of = forecast.lanes[static_cast<size_t>(lane)];
    if (of.busy_seconds <= 0) continue;
    absl::StrAppendFormat(&text, "  %-24s %12.3f s %12.3f s\n",
                          Name(static_cast<Lane>(lane)), of.busy_seconds,
                          of.stall_seconds);
  }
  absl::StrAppendFormat(
      &text,
      "%d slices, %d of them updated on the CPU and %d with a speculated weight; "
      "segments of %d layers, %d group%s; activations rest in the %s tier\n",
      view.slices, view.cpu_slices, view.lagged_slices, decisions.segment_layers,
      decisions.groups, decisions.groups == 1 ? "" : "s", Name(decisions.activations));
  return text;
}

std::string SweepText(const PlanQuestion& question,
                      const std::vector<SweepRow>& sweep) {
  std::string text = absl::StrFormat("\n  %-16s %10s %12s %14s %14s\n", "device memory",
                                     "s a step", "tokens/s", "host peak", "nvme peak");
  for (const SweepRow& row : sweep) {
    absl::StrAppendFormat(&text, "  %-16s", FormatSize(row.device_bytes));
    if (!row.fits) {
      absl::StrAppend(&text, " does not fit\n");
      continue;
    }
    absl::StrAppendFormat(&text, " %10.3f %12.0f %14s %14s\n", row.step_seconds,
                          TokensPerSecond(question, row.step_seconds),
                          FormatSize(row.arenas.host), FormatSize(row.arenas.nvme));
  }
  return text;
}

Json TiersJson(const TierBytes& bytes) {
  return {{"device", bytes.device}, {"host", bytes.host}, {"nvme", bytes.nvme}};
}

Json PlannedJson(const PlanQuestion& question, const PlannedStep& planned) {
  const PlanView view = ViewOf(planned);
  Json kinds = Json::object();
  for (const KindBytes& kind : view.kinds) {
    kinds[absl::StrReplaceAll(kind.kind, {{" ", "_"}})] = TiersJson(kind.bytes);
  }
  Json stalls = Json::object();
  for (int lane = 0; lane < kLaneCount; ++lane) {
    if (static_cast<Lane>(lane) == Lane::kCompute) continue;
    stalls[Name(static_cast<Lane>(lane))] =
        planned.forecast.lanes[static_cast<size_t>(lane)].stall_seconds;
  }
  const double seconds = planned.forecast.seconds;
  return {{"peak_bytes", TiersJson(view.arenas)},
          {"process_peak_bytes",
           {{"device", view.arenas.device + question.device_overhead_bytes()}}},
          {"bytes_by_kind", kinds},
          {"forecast_seconds", seconds},
          {"forecast_stall_seconds", stalls},
          {"floor_seconds", planned.floor_seconds},
          {"tokens_per_second", TokensPerSecond(question, seconds)},
          {"segment_layers", planned.decisions.segment_layers},
          {"groups", planned.decisions.groups},
          {"activations", Name(planned.decisions.activations)},
          {"slices", view.slices},
          {"lagged_slices", view.lagged_slices},
          {"cpu_slices", view.cpu_slices}};
}

Json SweepJson(const PlanQuestion& question, const std::vector<SweepRow>& sweep) {
  Json rows = Json::array();
  for (const SweepRow& row : sweep) {
    Json json = {{"device_memory", row.device_bytes}, {"fits", row.fits}};
    if (row.fits) {
      json["forecast_seconds"] = row.step_seconds;
      json["tokens_per_second"] = TokensPerSecond(question, row.step_seconds);
      json["peak_bytes"] = TiersJson(row.arenas);
    }
    rows.push_back(std::move(json));
  }
  return rows;
}

}  // namespace

std::string PlanText(const PlanQuestion& question,
                     const absl::StatusOr<PlannedStep>& planned,
                     const std::vector<SweepRow>& sweep) {
  std::string text = QuestionText(question);
  if (planned.ok()) {
    const PlanView view = ViewOf(*planned);
    absl::StrAppend(&text, "It fits.\n", MemoryText(question, view),
                    ForecastText(question, *planned, view));
  } else {
    absl::StrAppend(&text, "It does not fit.\n");
  }
  if (!sweep.empty()) text += SweepText(question, sweep);
  return text;
}

std::string PlanJson(const PlanQuestion& question,
                     const absl::StatusOr<PlannedStep>& planned,
                     const std::vector<SweepRow>& sweep) {
  const Budgets& budgets = question.budgets;
  Json json = {
      {"tool", "tierplan"},
      {"version", STRATA_VERSION},
      {"model", question.model},
      {"parameters", ParameterCount(question.shape)},
      {"fits", planned.ok()},
      {"dtype", question.dtype == DType::kBF16 ? "bf16" : "fp32"},
      {"tokens_per_step", question.tokens_per_step()},
      {"micro_batches", question.micro_batches},
      {"rows", question.micro_batch.sequences},
      {"sequence_length", question.micro_batch.length},
      {"max_grad_norm", question.optimizer.max_grad_norm},
      {"hardware",
       {{"name", question.machine.profile.name}, {"source", question.machine.source}}},
      {"budgets",
       TiersJson({budgets.device_bytes, budgets.host_bytes, budgets.nvme_bytes})},
      {"notes", question.notes},
      {"plan", planned.ok() ? PlannedJson(question, *planned) : Json(nullptr)}};
  if (!planned.ok()) {
    json["reason"] = std::string(planned.status().message());
    json["do"] = MendOf(planned.status());
  }
  if (!sweep.empty()) json["sweep"] = SweepJson(question, sweep);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata
