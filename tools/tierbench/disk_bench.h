/// The drives of a run of tierbench, made ready, and the measurements on them.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/types.h"
#include "tiers/io_queue_probe.h"
#include "tools/tierbench/disk_run.h"
#include "tools/tierbench/drive_file.h"
#include "tools/tierbench/phase.h"
#include "tools/tierbench/stop.h"

namespace strata {

struct DiskSettings {
  std::vector<std::string> directories;
  int64_t total_bytes = kGiB;  // of data, over all directories
  /// Data that takes longer than this to write is cut short; 0: never.
  double fill_seconds_max = 5;
  int64_t shard_bytes = 32 * kMiB;
  int64_t chunk_bytes = 2 * kMiB;
  int64_t window_bytes = 16 * kMiB;  // for each directory
  IoBackend backend = IoBackend::kAuto;
  DirectIo direct = DirectIo::kOn;
  Pages pages = Pages::kHuge;
  bool verifies = false;
  bool registers_memory = true;
  int loops = 5;
  double loop_seconds = 0.5;  // 0: a loop is all of the data once
};

/// InvalidArgument or ResourceExhausted, with the numbers, for what cannot be measured.
absl::Status CheckDiskSettings(const DiskSettings& settings);

class DiskBench {
 public:
  /// Makes the files, chooses the backend by using it, and writes the data.
  static absl::StatusOr<std::unique_ptr<DiskBench>> Create(DiskSettings settings,
                                                           const Stop& stop);

  absl::StatusOr<Phase> Measure(DiskOp op, const Stop& stop) {
    return Measure(op, settings_, stop);
  }
  /// With other chunk, window, backend, loops or registration than it was made with.
  /// REQUIRES: a window and a chunk that are no larger.
  absl::StatusOr<Phase> Measure(DiskOp op, const DiskSettings& settings,
                                const Stop& stop);

  /// "read_shm": what is read, into shared memory instead of anonymous pages; training
  /// can stage in either. Other memory stays in use afterwards.
  absl::StatusOr<Phase> MeasureShared(const Stop& stop);

  const DiskSettings& settings() const { return settings_; }
  IoBackend backend() const { return backend_; }
  const std::string& why_backend() const { return why_backend_; }
  std::span<const std::unique_ptr<DriveFile>> drives() const { return drives_; }
  int64_t data_bytes() const;
  /// Share of the files that the page cache holds: should be 0 with direct I/O.
  double CachedShare() const;

 private:
  explicit DiskBench(DiskSettings settings) : settings_(std::move(settings)) {}
  absl::Status ChooseBackend();
  absl::Status Fill(const Stop& stop);

  const DiskSettings settings_;
  IoBackend backend_ = IoBackend::kThreads;
  std::string why_backend_;
  std::vector<std::unique_ptr<DriveFile>> drives_;
};

}  // namespace strata
