#include "tools/tierbench/compare_fio.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <fstream>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kScoutSeconds = 0.5;
constexpr double kRoundSeconds = 1.0;
constexpr int kRounds = 7;

/// Huge pages of the system's pool that are free: fio takes no others.
int64_t FreeHugePageBytes() {
  std::ifstream file("/proc/meminfo");
  int64_t count = 0, kib = 2048;
  for (std::string word; file >> word;) {
    if (word == "HugePages_Free:") file >> count;
    if (word == "Hugepagesize:") file >> kib;
  }
  return count * kib * kKiB;
}

std::vector<FioJob> Candidates(const DiskBench& bench, DiskOp op) {
  std::vector<FioJob> jobs;
  const auto drives = static_cast<int64_t>(bench.drives().size());
  int64_t least = INT64_MAX;
  for (const auto& drive : bench.drives()) least = std::min(least, drive->data_bytes());
  for (const auto& [block, depth] :
       {std::pair(128 * kKiB, 32), std::pair(kMiB, 4), std::pair(kMiB, 16),
        std::pair(2 * kMiB, 8), std::pair(8 * kMiB, 4)}) {
    FioJob job{.op = op, .block_bytes = block, .depth = depth};
    job.seconds = kScoutSeconds;
    // fio rounds each job's memory up to whole pages.
    job.uses_huge_pages = FreeHugePageBytes() >= drives * (block * depth + 4 * kMiB);
    if (block * depth <= least) jobs.push_back(job);
  }
  return jobs;
}

absl::StatusOr<FioJob> FindBest(DiskBench& bench, DiskOp op, const Stop& stop) {
  FioJob best;
  double best_rate = 0;
  for (const FioJob& job : Candidates(bench, op)) {
    STRATA_ASSIGN_OR_RETURN(const FioResult result, RunFio(bench.drives(), job, stop));
    if (result.bytes_per_second <= best_rate) continue;
    best_rate = result.bytes_per_second;
    best = job;
  }
  if (best_rate > 0) return best;
  return absl::InvalidArgumentError("--total is too small to compare with fio");
}

/// Ours that is the fastest of those that the bench's memory allows.
absl::StatusOr<DiskSettings> FindOurBest(DiskBench& bench, DiskOp op,
                                         const Stop& stop) {
  DiskSettings best = bench.settings();
  double best_rate = 0;
  for (const auto& [chunk, window] :
       {std::pair(2 * kMiB, 16 * kMiB), std::pair(2 * kMiB, 8 * kMiB),
        std::pair(2 * kMiB, 4 * kMiB), std::pair(kMiB, 4 * kMiB)}) {
    DiskSettings settings = bench.settings();
    if (window > settings.window_bytes) continue;
    settings.chunk_bytes = chunk;
    settings.window_bytes = window;
    settings.loops = 1;
    settings.loop_seconds = kScoutSeconds;
    STRATA_ASSIGN_OR_RETURN(const Phase phase, bench.Measure(op, settings, stop));
    if (phase.rate.median <= best_rate) continue;
    best_rate = phase.rate.median;
    best = settings;
  }
  return best;
}

Json IntervalJson(const RatioInterval& ratio) {
  return {{"median", ratio.median}, {"low", ratio.low}, {"high", ratio.high}};
}

}  // namespace

absl::StatusOr<FioComparison> CompareWithFio(DiskBench& bench, DiskOp op,
                                             OurSetting setting, const Stop& stop) {
  FioComparison result{.op = op};
  STRATA_ASSIGN_OR_RETURN(result.job, FindBest(bench, op, stop));
  result.job.seconds = kRoundSeconds;
  DiskSettings settings = bench.settings();
  if (setting == OurSetting::kBest) {
    STRATA_ASSIGN_OR_RETURN(settings, FindOurBest(bench, op, stop));
  }
  settings.loops = 1;
  settings.loop_seconds = kRoundSeconds;
  result.chunk_bytes = settings.chunk_bytes;
  result.window_bytes = settings.window_bytes;
  const auto take_ours = [&]() -> absl::Status {
    STRATA_ASSIGN_OR_RETURN(const Phase phase, bench.Measure(op, settings, stop));
    result.ours.push_back(phase.rate.median);
    result.our_cpu.push_back(phase.cpu_seconds_per_gib);
    return absl::OkStatus();
  };
  const auto take_fios = [&]() -> absl::Status {
    STRATA_ASSIGN_OR_RETURN(const FioResult fio,
                            RunFio(bench.drives(), result.job, stop));
    result.fios.push_back(fio.bytes_per_second);
    result.fios_cpu.push_back(fio.cpu_seconds_per_gib);
    return absl::OkStatus();
  };
  const bool is_given = bench.settings().loop_seconds == 0;
  const int rounds = is_given ? bench.settings().loops : kRounds;
  for (int round = 0; round < rounds; ++round) {
    // Who goes first changes, too.
    if (round % 2 == 0) STRATA_RETURN_IF_ERROR(take_ours());
    STRATA_RETURN_IF_ERROR(take_fios());
    if (round % 2 == 1) STRATA_RETURN_IF_ERROR(take_ours());
  }
  result.rate = CompareInPairs(result.ours, result.fios);
  // Less CPU time than its clock can tell is as good as none.
  constexpr double kLeast = 1e-4;
  std::vector<double> our_cpu = result.our_cpu, fios_cpu = result.fios_cpu;
  for (double& value : our_cpu) value = std::max(value, kLeast);
  for (double& value : fios_cpu) value = std::max(value, kLeast);
  result.cpu = CompareInPairs(our_cpu, fios_cpu);
  return result;
}

Json ComparisonJson(const FioComparison& c) {
  return {{"op", c.op == DiskOp::kRead ? "read" : "write"},
          {"fio_bs", c.job.block_bytes},
          {"fio_iodepth", c.job.depth},
          {"fio_huge_pages", c.job.uses_huge_pages},
          {"chunk", c.chunk_bytes},
          {"inflight", c.window_bytes},
          {"rate_ratio", IntervalJson(c.rate)},
          {"cpu_ratio", IntervalJson(c.cpu)},
          {"ours_gbps", Median(c.ours) / 1e9},
          {"fio_gbps", Median(c.fios) / 1e9},
          {"ours_cpu_s_per_gib", Median(c.our_cpu)},
          {"fio_cpu_s_per_gib", Median(c.fios_cpu)}};
}

std::string ComparisonText(const FioComparison& c, const std::string& version) {
  return absl::StrFormat(
      "%-5s  ours %.2f GB/s, %.4f CPU s/GiB (%s x %d); %s %.2f GB/s, %.4f CPU s/GiB "
      "(%s)\n"
      "       rate %.3f x fio's (95 %%: %.3f..%.3f), CPU time %.2f x (%.2f..%.2f), %d "
      "interleaved rounds\n",
      c.op == DiskOp::kRead ? "read" : "write", Median(c.ours) / 1e9, Median(c.our_cpu),
      FormatSize(c.chunk_bytes), static_cast<int>(c.window_bytes / c.chunk_bytes),
      version, Median(c.fios) / 1e9, Median(c.fios_cpu), c.job.description(),
      c.rate.median, c.rate.low, c.rate.high, c.cpu.median, c.cpu.low, c.cpu.high,
      static_cast<int>(c.ours.size()));
}

}  // namespace strata
