/// tierbench's command line, read and checked.
#pragma once

#include <absl/status/status.h>

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/flags.h"
#include "tools/tierbench/disk_bench.h"
#include "tools/tierbench/sustained.h"
#include "tools/tierbench/sweep.h"

namespace strata {

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
  std::optional<std::string> compare, sweep, sustained;
  bool tune = false;
  std::vector<std::string> typed;  // for the JSON

  bool tunes() const { return tune || sweep; }

  // From Finish().
  DiskSettings disk;
  SustainedLimit sustained_limit;

  /// Checks what belongs together. InvalidArgument with the numbers.
  absl::Status Finish();
  /// Drives' settings once a sweep has found the best.
  void UseTuned(const SweepPoint& choice);
  /// Everything this machine has, rather than one operation or path.
  bool measures_all() const {
    return !op && !path && !compare && !sustained && !sweep && (!tune || save_profile);
  }

 private:
  absl::Status CheckModes() const;
};

cli::Flags BenchFlagTable(BenchCommand& command);

}  // namespace strata
