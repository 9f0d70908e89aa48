#include "tools/tierbench/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "runtime/base/status.h"

namespace strata {
namespace {

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double StandardDeviation(std::span<const double> values) {
  const double mean = Mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

/// Two-sided 95 % quantile of Student's t for `freedom` (1 or more) degrees of freedom.
double StudentQuantile(size_t freedom) {
  constexpr std::array kTable = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                 2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                 2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
  return freedom <= kTable.size() ? kTable[freedom - 1] : 2.086;
}

}  // namespace

double Median(std::vector<double> values) {
  STRATA_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

double Percentile(std::span<const double> sorted, double share) {
  STRATA_CHECK(!sorted.empty());
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  const auto index = static_cast<size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

double CoefficientOfVariation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  return mean == 0 ? 0 : StandardDeviation(values) / mean;
}

RatioInterval CompareInPairs(std::span<const double> ours,
                             std::span<const double> theirs) {
  STRATA_CHECK(!ours.empty() && ours.size() == theirs.size());
  std::vector<double> ratios, logarithms;
  for (size_t i = 0; i < ours.size(); ++i) {
    STRATA_CHECK(ours[i] > 0 && theirs[i] > 0);
    ratios.push_back(ours[i] / theirs[i]);
    logarithms.push_back(std::log(ratios.back()));
  }
  const double center = Mean(logarithms);
  double half = 0;
  if (ratios.size() > 1) {
    half = StudentQuantile(ratios.size() - 1) * StandardDeviation(logarithms) /
           std::sqrt(static_cast<double>(ratios.size()));
  }
  return {.median = Median(ratios),
          .low = std::exp(center - half),
          .high = std::exp(center + half)};
}

Latencies SummarizeLatencies(std::vector<double> microseconds) {
  if (microseconds.empty()) return {};
  std::sort(microseconds.begin(), microseconds.end());
  return {.p50_us = Percentile(microseconds, 0.5),
          .p90_us = Percentile(microseconds, 0.9),
          .p99_us = Percentile(microseconds, 0.99),
          .p999_us = Percentile(microseconds, 0.999),
          .max_us = microseconds.back()};
}

}  // namespace strata
