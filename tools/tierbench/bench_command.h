/// tierbench's command line, read and checked.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/flags.h"
#include "tools/tierbench/disk_bench.h"

namespace strata {

/// What moves between which tiers.
enum class BenchPath : uint8_t { kNvmeHost, kHostDevice, kDeviceHost, kBoth };

struct BenchCommand {
  std::vector<std::string> directories;
  std::optional<std::string> op, path;
  std::string device = "auto";
  std::optional<cli::Size> shard_size, total, chunk, inflight;
  std::string io_backend = "auto", direct = "on", pages = "huge";
  std::optional<int64_t> loops;
  bool verify = false;
  std::string json;
  bool save_profile = false;
  std::optional<std::string> compare;
  std::vector<std::string> typed;  // for the JSON

  // From Finish().
  DiskSettings disk;

  /// Checks what belongs together. InvalidArgument with the numbers.
  absl::Status Finish();
  /// Everything this machine has, rather than one operation or path.
  bool measures_all() const { return !op && !path && !compare; }
};

cli::Flags BenchFlagTable(BenchCommand& command);

}  // namespace strata
