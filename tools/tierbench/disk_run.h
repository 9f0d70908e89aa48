/// Moves chunks between memory and files as fast as the queue takes them, one thread
/// and one ring for each drive, as the NVMe tier does, without the tier's checksums
/// unless they are asked for: what the drives and the kernel give.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tiers/chunk_queue.h"
#include "tiers/io_queue_probe.h"
#include "tools/tierbench/cpu_time.h"
#include "tools/tierbench/drive_file.h"
#include "tools/tierbench/statistics.h"
#include "tools/tierbench/stop.h"

namespace strata {

enum class DiskOp : uint8_t { kRead, kWrite, kMixed };

struct DiskRunOptions {
  DiskOp op = DiskOp::kRead;
  IoBackend backend = IoBackend::kIoUring;  // not kAuto: proven before
  int64_t shard_bytes = 0;  // consecutive chunks whose latency is taken together
  int64_t chunk_bytes = 0;
  int64_t window_bytes = 0;  // in flight for each drive; mixed: half each way
  bool registers_memory = true;
  /// Checksums what is written and compares what is read, on the I/O thread.
  bool verifies = false;
  /// The run ends `seconds` after warming up, or if that is 0 when each drive has moved
  /// `bytes` or, if it is not 0, `seconds_max` have passed.
  double warm_up_seconds = 0;
  double seconds = 0;
  int64_t bytes = 0;
  double seconds_max = 0;
};

/// Bytes that had arrived at a time.
struct DiskProgress {
  double seconds = 0;  // since the start of the run
  int64_t bytes = 0;
  IoOp op = IoOp::kRead;
};

struct DiskRunResult {
  std::vector<DiskProgress> progress;  // in order of time, warm-up included
  double begin_seconds = 0;            // end of warming up
  double end_seconds = 0;
  int64_t launched_bytes = 0;  // of one drive
  std::vector<double> shard_us, chunk_us;
  CpuTime cpu;  // between the two
  ChunkCounters counters;
  int64_t kernel_workers_max = 0;
  std::string queue_description;
};

/// Ranges of the drives' data: reads take the first half and writes the second where
/// both happen, else all of it, round and round. DataLoss if bytes read are not those
/// written, Cancelled after `stop`; in every case nothing is in flight any more.
absl::StatusOr<DiskRunResult> RunDisk(
    std::span<const std::unique_ptr<DriveFile>> drives, const DiskRunOptions& options,
    const Stop& stop);

}  // namespace strata
