#include "tools/tierbench/disk_samples.h"

#include <absl/strings/str_cat.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>
#include <set>

namespace strata {
namespace {

constexpr double kGiBytes = static_cast<double>(kGiB);

const char* NameOf(DiskOp op) {
  return op == DiskOp::kRead ? "read" : op == DiskOp::kWrite ? "write" : "mixed";
}

const char* LabelOf(DiskOp op) {
  return op == DiskOp::kRead    ? "nvme read"
         : op == DiskOp::kWrite ? "nvme write"
                                : "nvme read + write at once";
}

}  // namespace

std::vector<double> RatesByTime(std::span<const DiskProgress> progress, double begin,
                                double end, int loops) {
  std::vector<double> bytes(static_cast<size_t>(loops), 0.0);
  const double length = (end - begin) / loops;
  if (length <= 0) return {};
  for (const DiskProgress& step : progress) {
    if (step.seconds < begin || step.seconds >= end) continue;
    const auto loop = static_cast<size_t>((step.seconds - begin) / length);
    bytes[std::min(loop, bytes.size() - 1)] += static_cast<double>(step.bytes);
  }
  for (double& sum : bytes) sum /= length;
  return bytes;
}

std::vector<double> RatesByBytes(std::span<const DiskProgress> progress, int loops) {
  double total = 0;
  for (const DiskProgress& step : progress) total += static_cast<double>(step.bytes);
  std::vector<double> rates;
  double sum = 0, since = 0, since_bytes = 0;
  for (const DiskProgress& step : progress) {
    sum += static_cast<double>(step.bytes);
    const double next = total / loops * static_cast<double>(rates.size() + 1);
    if (sum < next || step.seconds <= since) continue;
    rates.push_back((sum - since_bytes) / (step.seconds - since));
    since = step.seconds;
    since_bytes = sum;
  }
  return rates;
}

double WorstSecond(std::span<const DiskProgress> progress, double begin, double end) {
  const int seconds = static_cast<int>(end - begin);
  if (seconds < 1) return 0;
  const std::vector<double> rates =
      RatesByTime(progress, begin, begin + seconds, seconds);
  return *std::min_element(rates.begin(), rates.end());
}

Phase MakeDiskPhase(DiskOp op, const DiskSettings& settings,
                    const DiskRunResult& result) {
  Phase phase{.name = NameOf(op), .label = LabelOf(op)};
  phase.seconds = result.end_seconds - result.begin_seconds;
  double read = 0, written = 0;
  for (const DiskProgress& step : result.progress) {
    if (step.seconds < result.begin_seconds || step.seconds > result.end_seconds) {
      continue;
    }
    (step.op == IoOp::kRead ? read : written) += static_cast<double>(step.bytes);
  }
  phase.bytes = read + written;
  phase.rate.worst_1s =
      WorstSecond(result.progress, result.begin_seconds, result.end_seconds);
  SetSamples(phase, settings.loop_seconds > 0
                        ? RatesByTime(result.progress, result.begin_seconds,
                                      result.end_seconds, settings.loops)
                        : RatesByBytes(result.progress, settings.loops));
  phase.shard_latency = SummarizeLatencies(result.shard_us);
  phase.chunk_latency = SummarizeLatencies(result.chunk_us);
  if (phase.bytes > 0) {
    const double gib = phase.bytes / kGiBytes;
    phase.cpu_seconds_per_gib = result.cpu.process_seconds / gib;
    phase.system_cpu_seconds_per_gib = result.cpu.system_seconds / gib;
  }
  phase.io.short_count = result.counters.short_count;
  phase.io.retry_count = result.counters.retry_count;
  phase.io.kernel_workers_max = result.kernel_workers_max;
  phase.params["shard_bytes"] = settings.shard_bytes;
  phase.params["chunk_bytes"] = settings.chunk_bytes;
  phase.params["inflight_bytes"] = settings.window_bytes;
  phase.params["pages"] = Name(settings.pages);
  phase.params["direct"] = settings.direct == DirectIo::kOn;
  phase.params["verify"] = settings.verifies;
  phase.params["queue"] = result.queue_description;
  if (op == DiskOp::kMixed && phase.seconds > 0) {
    phase.params["read_gbps"] = read / phase.seconds / 1e9;
    phase.params["write_gbps"] = written / phase.seconds / 1e9;
  }
  return phase;
}

RequestCounts CountRequests(std::span<const std::unique_ptr<DriveFile>> drives) {
  std::set<dev_t> devices;
  int64_t sum = 0;
  for (const std::unique_ptr<DriveFile>& drive : drives) {
    struct stat info {};
    if (fstat(drive->descriptor(), &info) != 0) continue;
    if (!devices.insert(info.st_dev).second) continue;
    std::ifstream file(absl::StrCat("/sys/dev/block/", major(info.st_dev), ":",
                                    minor(info.st_dev), "/stat"));
    int64_t reads = 0, merged = 0, sectors = 0, ticks = 0, writes = 0;
    if (file >> reads >> merged >> sectors >> ticks >> writes) sum += reads + writes;
  }
  return sum;
}

void SetRequestsPerChunk(RequestCounts before, RequestCounts after,
                         const DiskRunResult& result, Phase& phase) {
  if (after <= before || result.progress.empty()) return;
  phase.io.device_requests_per_chunk =
      static_cast<double>(after - before) / static_cast<double>(result.progress.size());
}

}  // namespace strata
