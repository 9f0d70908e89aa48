/// Long writes: a drive with a fast cache in front of slow flash shows its true rate
/// only after the cache is full.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <span>

#include "tools/tierbench/disk_bench.h"

namespace strata {

/// "600" and "600s" are seconds, "200GB" is bytes.
struct SustainedLimit {
  double seconds = 0;  // or
  int64_t bytes = 0;
};
absl::StatusOr<SustainedLimit> ParseSustained(absl::string_view text);

/// Where a rate falls for good, and to what.
struct Cliff {
  bool is_found = false;
  double at_bytes = 0;           // written before it
  double before = 0, after = 0;  // bytes per second
};
/// Of rates in consecutive seconds: the split after which the mean is lowest compared
/// with before, if it falls by a third or more and stays so to the end.
Cliff FindCliff(std::span<const double> bytes_per_second);

/// "sustained_write": writes over the data again and again.
absl::StatusOr<Phase> MeasureSustained(DiskBench& bench, const SustainedLimit& limit,
                                       const Stop& stop);

}  // namespace strata
