#include "tools/tierbench/disk_run.h"

#include <algorithm>
#include <thread>

#include "runtime/base/status.h"
#include "tools/tierbench/drive_loop.h"

namespace strata {
namespace {

void Merge(DiskRunResult& sum, DiskRunResult&& part) {
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(sum.progress, part.progress);
  append(sum.shard_us, part.shard_us);
  append(sum.chunk_us, part.chunk_us);
  sum.begin_seconds = std::max(sum.begin_seconds, part.begin_seconds);
  sum.end_seconds = std::max(sum.end_seconds, part.end_seconds);
  sum.launched_bytes = std::max(sum.launched_bytes, part.launched_bytes);
  // Each counted the whole process.
  sum.cpu.process_seconds = std::max(sum.cpu.process_seconds, part.cpu.process_seconds);
  sum.cpu.system_seconds = std::max(sum.cpu.system_seconds, part.cpu.system_seconds);
  sum.counters.bytes_read += part.counters.bytes_read;
  sum.counters.bytes_written += part.counters.bytes_written;
  sum.counters.short_count += part.counters.short_count;
  sum.counters.retry_count += part.counters.retry_count;
  sum.kernel_workers_max = std::max(sum.kernel_workers_max, part.kernel_workers_max);
  sum.queue_description = part.queue_description;
}

}  // namespace

absl::StatusOr<DiskRunResult> RunDisk(
    std::span<const std::unique_ptr<DriveFile>> drives, const DiskRunOptions& options,
    const Stop& stop) {
  STRATA_CHECK(!drives.empty() && (options.seconds > 0 || options.bytes > 0));
  DiskRunState state(static_cast<std::ptrdiff_t>(drives.size()));
  std::vector<std::unique_ptr<DriveLoop>> loops;
  std::vector<std::thread> threads;
  for (const std::unique_ptr<DriveFile>& drive : drives) {
    loops.push_back(std::make_unique<DriveLoop>(*drive, options, stop, state));
    threads.emplace_back([loop = loops.back().get()] { loop->Run(); });
  }
  for (std::thread& thread : threads) thread.join();
  DiskRunResult result;
  for (const std::unique_ptr<DriveLoop>& loop : loops) {
    STRATA_RETURN_IF_ERROR(loop->status());
    Merge(result, std::move(loop->result()));
  }
  STRATA_RETURN_IF_ERROR(stop.status());
  std::stable_sort(result.progress.begin(), result.progress.end(),
                   [](const DiskProgress& a, const DiskProgress& b) {
                     return a.seconds < b.seconds;
                   });
  return result;
}

}  // namespace strata
