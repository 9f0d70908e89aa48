#include "tools/tierbench/sustained.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "tools/tierbench/disk_samples.h"

namespace strata {
namespace {

constexpr double kFall = 2.0 / 3;
constexpr size_t kSecondsMin = 3;  // on each side of a cliff

double Sum(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

}  // namespace

absl::StatusOr<SustainedLimit> ParseSustained(absl::string_view text) {
  SustainedLimit limit;
  absl::string_view number = text;
  absl::ConsumeSuffix(&number, "s");
  if (absl::SimpleAtod(number, &limit.seconds)) {
    if (limit.seconds >= 1 && limit.seconds <= 86400) return limit;
  } else if (const auto bytes = ParseSize(text); bytes.ok() && *bytes > 0) {
    return SustainedLimit{.bytes = *bytes};
  }
  return WithMend(
      absl::InvalidArgumentError(absl::StrCat(
          "--sustained '", text, "' is neither 1 to 86400 seconds nor a size")),
      "write seconds (600) or bytes with their unit (200GB)");
}

Cliff FindCliff(std::span<const double> rates) {
  Cliff cliff;
  for (size_t at = kSecondsMin; at + kSecondsMin <= rates.size(); ++at) {
    const double before = Sum(rates.first(at)) / static_cast<double>(at);
    const double after =
        Sum(rates.subspan(at)) / static_cast<double>(rates.size() - at);
    const double highest_after =
        *std::max_element(rates.begin() + static_cast<int64_t>(at), rates.end());
    if (after > kFall * before || highest_after > 0.9 * before) continue;
    if (cliff.is_found && after / before >= cliff.after / cliff.before) continue;
    cliff = {.is_found = true,
             .at_bytes = Sum(rates.first(at)),
             .before = before,
             .after = after};
  }
  return cliff;
}

absl::StatusOr<Phase> MeasureSustained(DiskBench& bench, const SustainedLimit& limit,
                                       const Stop& stop) {
  DiskSettings settings = bench.settings();
  DiskRunOptions run{.op = DiskOp::kWrite, .backend = bench.backend()};
  run.shard_bytes = settings.shard_bytes;
  run.chunk_bytes = settings.chunk_bytes;
  run.window_bytes = settings.window_bytes;
  run.seconds = limit.seconds;
  const auto drives = static_cast<int64_t>(bench.drives().size());
  if (limit.seconds == 0) run.bytes = CeilDiv(limit.bytes, drives);
  STRATA_ASSIGN_OR_RETURN(const DiskRunResult result,
                          RunDisk(bench.drives(), run, stop));
  const double length = result.end_seconds - result.begin_seconds;
  const int seconds = std::max(1, static_cast<int>(length));
  settings.loops = seconds;
  settings.loop_seconds = 1;
  Phase phase = MakeDiskPhase(DiskOp::kWrite, settings, result);
  const std::vector<double> rates = RatesByTime(
      result.progress, result.begin_seconds,
      length >= 1 ? result.begin_seconds + seconds : result.end_seconds, seconds);
  SetSamples(phase, rates);
  phase.name = "sustained_write";
  phase.label = absl::StrFormat("nvme write for %.0f s", phase.seconds);
  const size_t last = std::max<size_t>(1, rates.size() / 5);
  const double at_end = Sum(std::span(rates).last(last)) / static_cast<double>(last);
  phase.params["write_sustained_gbps"] = at_end / 1e9;
  const Cliff cliff = FindCliff(rates);
  phase.params["cliff_bytes"] = cliff.is_found ? nlohmann::ordered_json(cliff.at_bytes)
                                               : nlohmann::ordered_json(nullptr);
  phase.notes.push_back(
      cliff.is_found
          ? absl::StrFormat("after %.1f GB the rate fell from %.2f to %.2f GB/s",
                            cliff.at_bytes / 1e9, cliff.before / 1e9, cliff.after / 1e9)
          : absl::StrFormat(
                "no fall in %.1f GB; a drive's fast cache can be larger, so "
                "write for as long as training would",
                phase.bytes / 1e9));
  return phase;
}

}  // namespace strata
