/// Numbers about numbers: medians, percentiles, steadiness, and how sure a ratio is.
#pragma once

#include <span>
#include <vector>

namespace strata {

/// Of at least one value; of two middle ones their mean.
double Median(std::vector<double> values);

/// The least value that a share `share` (0 to 1) of the values does not exceed.
/// REQUIRES: `sorted` is ascending and not empty.
double Percentile(std::span<const double> sorted, double share);

/// Standard deviation over mean; 0 for fewer than two values or a mean of 0.
double CoefficientOfVariation(std::span<const double> values);

struct RatioInterval {
  double median = 0;  // of the pairs' ratios
  double low = 0;     // 95 % interval of the ratios' geometric mean
  double high = 0;
};

/// Of ours[i] / theirs[i], measured in pairs: what slows a whole machine down hits both
/// of a pair. Student's t on the logarithms; one pair has no interval (low = high).
/// REQUIRES: as many of both, at least one, all positive.
RatioInterval CompareInPairs(std::span<const double> ours,
                             std::span<const double> theirs);

struct Latencies {
  double p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
  bool is_empty() const { return max_us == 0; }
};
Latencies SummarizeLatencies(std::vector<double> microseconds);

}  // namespace strata
