/// fio as the yardstick: runs it on our own files and reads what it found.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/tierbench/disk_run.h"
#include "tools/tierbench/drive_file.h"
#include "tools/tierbench/stop.h"

namespace strata {

struct FioJob {
  DiskOp op = DiskOp::kRead;  // read or write
  int64_t block_bytes = 0;
  int depth = 0;
  bool uses_huge_pages = false;  // of the system's pool
  double seconds = 1;            // after a warm-up of 0.2

  std::string description() const;  // "2.00 MiB x 8, 4k pages"
};

struct FioResult {
  double bytes_per_second = 0;
  double cpu_seconds_per_gib = 0;  // user and system
};

/// "fio-3.33". Unavailable, with how to install it, if there is none.
absl::StatusOr<std::string> FioVersion(const Stop& stop);

/// io_uring with registered files and buffers and direct I/O over the data of all
/// drives. REQUIRES: the drives' data may be overwritten, if it writes.
absl::StatusOr<FioResult> RunFio(std::span<const std::unique_ptr<DriveFile>> drives,
                                 const FioJob& job, const Stop& stop);

/// The arguments of that run, without "fio".
std::vector<std::string> FioArguments(
    std::span<const std::unique_ptr<DriveFile>> drives, const FioJob& job);

/// Rates from fio's own JSON. DataLoss if it is none, Internal with fio's error number
/// if it failed.
absl::StatusOr<FioResult> ParseFioJson(const std::string& text, DiskOp op);

}  // namespace strata
