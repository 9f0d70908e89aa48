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
  FioJob job;                             // the fastest of those that were tried
  RatioInterval rate;                     // ours / fio's: above 1 is faster
  RatioInterval cpu;                      // of seconds per GiB: below 1 is cheaper
  std::vector<double> ours, fios;         // bytes per second, one a round
  std::vector<double> our_cpu, fios_cpu;  // seconds per GiB
};

inline constexpr int kComparisonRounds = 7;

/// Tries fio's block sizes and depths briefly, then takes rounds with the best.
absl::StatusOr<FioComparison> CompareWithFio(DiskBench& bench, DiskOp op,
                                             const Stop& stop);

nlohmann::ordered_json ComparisonJson(const FioComparison& comparison);
std::string ComparisonText(const FioComparison& comparison, const std::string& version);

}  // namespace strata
