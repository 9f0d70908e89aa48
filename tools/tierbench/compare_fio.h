/// Our engine against fio's best setting, in interleaved rounds on the same files, so
/// that what slows the machine down hits both.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>

#include "tools/tierbench/disk_bench.h"
#include "tools/tierbench/fio.h"

namespace strata {

struct FioComparison {
  DiskOp op = DiskOp::kRead;
  FioJob job;                                 // the fastest of those that were tried
  int64_t chunk_bytes = 0, window_bytes = 0;  // our own
  RatioInterval rate;                         // ours / fio's: above 1 is faster
  RatioInterval cpu;                          // of seconds per GiB: below 1 is cheaper
  std::vector<double> ours, fios;             // bytes per second, one a round
  std::vector<double> our_cpu, fios_cpu;      // seconds per GiB
};

enum class OurSetting : uint8_t { kGiven, kBest };

/// Tries fio's block sizes and depths briefly, and with kBest our chunks and windows as
/// long, then takes rounds with the best of each: 7, or as many as the bench's loops if
/// those are of bytes.
absl::StatusOr<FioComparison> CompareWithFio(DiskBench& bench, DiskOp op,
                                             OurSetting setting, const Stop& stop);

nlohmann::ordered_json ComparisonJson(const FioComparison& comparison);
std::string ComparisonText(const FioComparison& comparison, const std::string& version);

}  // namespace strata
