#include "tools/tierbench/sweep.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPointSeconds = 0.3;
constexpr double kShortPointSeconds = 0.05;  // where --loops asks for a short run
/// Rates that differ by less are the same.
constexpr double kTie = 0.97;

Json AioBlock(const SweepPoint& choice) {
  return {{"block_size", choice.chunk_bytes},
          {"queue_depth", choice.window_bytes / choice.chunk_bytes},
          {"intra_op_parallelism", 1},
          {"single_submit", false},
          {"overlap_events", true}};
}

}  // namespace

std::vector<SweepPoint> SweepPoints(SweepKind kind) {
  const bool is_full = kind == SweepKind::kFull;
  const std::vector<int64_t> chunks =
      is_full ? std::vector<int64_t>{128 * kKiB, 512 * kKiB, kMiB,     2 * kMiB,
                                     4 * kMiB,   8 * kMiB,   16 * kMiB}
              : std::vector<int64_t>{kMiB, 2 * kMiB, 8 * kMiB};
  const std::vector<int64_t> windows =
      is_full ? std::vector<int64_t>{kMiB,      2 * kMiB,  4 * kMiB,         8 * kMiB,
                                     16 * kMiB, 32 * kMiB, kSweepWindowBytes}
              : std::vector<int64_t>{4 * kMiB, 8 * kMiB, 16 * kMiB, 32 * kMiB};
  std::vector<SweepPoint> points;
  for (const int64_t window : windows) {
    for (const int64_t chunk : chunks) {
      if (chunk > window) continue;
      points.push_back({.chunk_bytes = chunk, .window_bytes = window});
      if (!is_full) continue;
      points.push_back(points.back());
      points.back().registers_memory = false;
    }
  }
  return points;
}

absl::StatusOr<std::vector<SweepPoint>> Sweep(
    DiskBench& bench, SweepKind kind, const Stop& stop,
    const std::function<void(const SweepPoint&)>& show) {
  std::vector<SweepPoint> points = SweepPoints(kind);
  for (SweepPoint& point : points) {
    DiskSettings settings = bench.settings();
    settings.chunk_bytes = point.chunk_bytes;
    settings.window_bytes = point.window_bytes;
    settings.registers_memory = point.registers_memory;
    settings.verifies = false;  // checksums belong to the chunks of the data's writing
    settings.loops = 1;
    const bool is_short = bench.settings().loop_seconds == 0;
    settings.loop_seconds = is_short ? kShortPointSeconds : kPointSeconds;
    STRATA_ASSIGN_OR_RETURN(const Phase read,
                            bench.Measure(DiskOp::kRead, settings, stop));
    STRATA_ASSIGN_OR_RETURN(const Phase write,
                            bench.Measure(DiskOp::kWrite, settings, stop));
    point.read = read.rate.median;
    point.write = write.rate.median;
    point.read_cpu = read.cpu_seconds_per_gib;
    point.write_cpu = write.cpu_seconds_per_gib;
    show(point);
  }
  return points;
}

SweepPoint ChoosePoint(const std::vector<SweepPoint>& points) {
  STRATA_CHECK(!points.empty());
  double best_read = 0, best_write = 0;
  for (const SweepPoint& point : points) {
    best_read = std::max(best_read, point.read);
    best_write = std::max(best_write, point.write);
  }
  // Time of a byte each way, in units of the best: a step reads about what it writes.
  const auto score = [&](const SweepPoint& point) {
    if (point.read <= 0 || point.write <= 0) return 0.0;
    return 2 / (best_read / point.read + best_write / point.write);
  };
  double best = 0;
  for (const SweepPoint& point : points) best = std::max(best, score(point));
  const SweepPoint* chosen = nullptr;
  for (const SweepPoint& point : points) {
    if (score(point) < kTie * best) continue;
    if (chosen == nullptr || point.window_bytes < chosen->window_bytes ||
        (point.window_bytes == chosen->window_bytes && score(point) > score(*chosen))) {
      chosen = &point;
    }
  }
  return *chosen;
}

std::string SweepHead() {
  return absl::StrFormat("%10s %10s %11s  %9s %9s  %14s\n", "chunk", "inflight",
                         "registered", "read GB/s", "write", "CPU s/GiB r/w");
}

std::string SweepRow(const SweepPoint& p) {
  return absl::StrFormat("%10s %10s %11s  %9.2f %9.2f  %7.4f %6.4f\n",
                         FormatSize(p.chunk_bytes), FormatSize(p.window_bytes),
                         p.registers_memory ? "yes" : "no", p.read / 1e9, p.write / 1e9,
                         p.read_cpu, p.write_cpu);
}

std::string TunedText(const SweepPoint& choice) {
  return absl::StrCat(
      "best: --chunk ", choice.chunk_bytes, " --inflight ", choice.window_bytes, " (",
      FormatSize(choice.chunk_bytes), ", ", FormatSize(choice.window_bytes),
      "); with --tune --save_profile, tiertrain takes it from the profile\n",
      "for DeepSpeed:\n", Json{{"aio", AioBlock(choice)}}.dump(2), "\n");
}

Json TunedJson(const SweepPoint& choice, const std::vector<SweepPoint>& points) {
  const Json chosen = {{"chunk", choice.chunk_bytes},
                       {"inflight", choice.window_bytes},
                       {"registered", choice.registers_memory}};
  Json json = {{"read", chosen}, {"write", chosen}, {"aio", AioBlock(choice)}};
  for (const SweepPoint& p : points) {
    json["points"].push_back({{"chunk", p.chunk_bytes},
                              {"inflight", p.window_bytes},
                              {"registered", p.registers_memory},
                              {"read_gbps", p.read / 1e9},
                              {"write_gbps", p.write / 1e9},
                              {"read_cpu_s_per_gib", p.read_cpu},
                              {"write_cpu_s_per_gib", p.write_cpu}});
  }
  return json;
}

}  // namespace strata
