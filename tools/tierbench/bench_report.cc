#include "tools/tierbench/bench_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <ctime>

#include "runtime/base/types.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

const char* Name(Check::Status status) {
  return status == Check::Status::kPass   ? "pass"
         : status == Check::Status::kWarn ? "warn"
                                          : "fail";
}

std::string TimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

Json LatencyJson(const Latencies& l) {
  return {{"p50", l.p50_us},
          {"p90", l.p90_us},
          {"p99", l.p99_us},
          {"p999", l.p999_us},
          {"max", l.max_us}};
}

Json PhaseJson(const Phase& phase) {
  Json json = {{"name", phase.name},
               {"params", phase.params},
               {"bytes", static_cast<int64_t>(phase.bytes)},
               {"seconds", phase.seconds},
               {"gbps",
                {{"median", phase.rate.median / 1e9},
                 {"min", phase.rate.min / 1e9},
                 {"max", phase.rate.max / 1e9},
                 {"worst_1s", phase.rate.worst_1s / 1e9}}}};
  if (phase.flop_per_second > 0) json["tflops"] = phase.flop_per_second / 1e12;
  if (phase.elements_per_second > 0) {
    json["parameters_per_second"] = phase.elements_per_second;
  }
  Json samples = Json::array();
  for (const double sample : phase.samples) samples.push_back(sample / 1e9);
  json["gbps"]["loops"] = std::move(samples);
  if (!phase.shard_latency.is_empty()) {
    json["shard_lat_us"] = LatencyJson(phase.shard_latency);
  }
  if (!phase.chunk_latency.is_empty()) {
    json["chunk_lat_us"] = LatencyJson(phase.chunk_latency);
    json["counters"] = {{"short", phase.io.short_count},
                        {"retries", phase.io.retry_count},
                        {"iowq_max", phase.io.kernel_workers_max},
                        {"dev_reqs_per_chunk", phase.io.device_requests_per_chunk}};
  }
  if (phase.cpu_seconds_per_gib > 0) {
    json["cpu"] = {{"s_per_gib", phase.cpu_seconds_per_gib},
                   {"system_s_per_gib", phase.system_cpu_seconds_per_gib}};
  }
  json["errors"] = Json::array();
  json["notes"] = phase.notes;
  json["stable"] = phase.is_stable();
  json["cv"] = phase.variation;
  return json;
}

std::string Detail(const Phase& phase) {
  std::string text;
  const auto add = [&text](const std::string& part) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  };
  if (phase.flop_per_second >= 1e12) {
    add(absl::StrFormat("%.1f TFLOP/s", phase.flop_per_second / 1e12));
  } else if (phase.flop_per_second > 0) {
    add(absl::StrFormat("%.0f GFLOP/s", phase.flop_per_second / 1e9));
  }
  if (phase.elements_per_second > 0) {
    add(absl::StrFormat("%.2f G parameters/s", phase.elements_per_second / 1e9));
  }
  if (!phase.shard_latency.is_empty()) {
    add(absl::StrFormat("shard p50 %.1f p99 %.1f ms", phase.shard_latency.p50_us / 1e3,
                        phase.shard_latency.p99_us / 1e3));
  }
  if (phase.cpu_seconds_per_gib > 0) {
    add(absl::StrFormat("%.3f CPU s/GiB", phase.cpu_seconds_per_gib));
  }
  if (!phase.is_stable())
    add(absl::StrFormat("unsteady (%.0f %%)", 100 * phase.variation));
  return text;
}

}  // namespace

bool BenchReport::is_ok() const {
  return std::none_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.status == Check::Status::kFail;
  });
}

const Phase* BenchReport::Find(absl::string_view phase) const {
  const auto found = std::find_if(phases.begin(), phases.end(),
                                  [&](const Phase& p) { return p.name == phase; });
  return found == phases.end() ? nullptr : &*found;
}

std::string TableHead() {
  return absl::StrFormat("%-50s %8s %8s  %-13s  %s\n", "what", "GB/s", "GiB/s",
                         "min..max GB/s", "");
}

std::string TableRow(const Phase& phase) {
  const auto figure = [](double value) {
    return value >= 100 ? absl::StrFormat("%.0f", value)
                        : absl::StrFormat("%.2f", value);
  };
  return absl::StrFormat(
      "%-50s %8s %8s  %-13s  %s\n", phase.label, figure(phase.rate.median / 1e9),
      figure(phase.rate.median / static_cast<double>(kGiB)),
      absl::StrCat(figure(phase.rate.min / 1e9), "..", figure(phase.rate.max / 1e9)),
      Detail(phase));
}

std::string ChecksText(const BenchReport& report) {
  std::string text;
  for (const Check& check : report.checks) {
    if (check.status == Check::Status::kPass) continue;
    absl::StrAppend(&text, check.status == Check::Status::kWarn ? "note: " : "failed: ",
                    check.detail, "\n");
  }
  for (const Phase& phase : report.phases) {
    for (const std::string& note : phase.notes) {
      absl::StrAppend(&text, "note: ", phase.label, ": ", note, "\n");
    }
  }
  return text;
}

std::string BenchJson(const BenchReport& report) {
  Json json = {{"schema", "tierbench/1"}, {"version", STRATA_VERSION},
               {"time", TimeNow()},       {"cmdline", report.command_line},
               {"host", report.host},     {"targets", report.targets},
               {"gpus", report.gpus},     {"engine", report.engine}};
  Json checks = Json::array(), phases = Json::array(), warnings = Json::array();
  for (const Check& check : report.checks) {
    checks.push_back({{"name", check.name},
                      {"status", Name(check.status)},
                      {"detail", check.detail}});
    if (check.status != Check::Status::kPass) warnings.push_back(check.detail);
  }
  for (const Phase& phase : report.phases) phases.push_back(PhaseJson(phase));
  json["checks"] = std::move(checks);
  json["phases"] = std::move(phases);
  if (!report.tuned.empty()) json["tuned"] = report.tuned;
  if (!report.comparison.empty()) json["comparison"] = report.comparison;
  json["plan"] = report.plan;
  json["verdict"] = {{"ok", report.is_ok()}, {"warnings", std::move(warnings)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace strata
