#include "tools/tierbench/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tools/tierbench/disk_samples.h"

namespace strata {
namespace {

TEST(Statistics, TheMedianIsTheMiddleOrTheMeanOfBothMiddles) {
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 5}), 5);
  EXPECT_EQ(Median({9, 1, 5, 7}), 6);
}

TEST(Statistics, APercentileIsAValueThatWasMeasured) {
  std::vector<double> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(i);
  EXPECT_EQ(Percentile(values, 0.5), 500);
  EXPECT_EQ(Percentile(values, 0.999), 999);
  EXPECT_EQ(Percentile(values, 1), 1000);
  EXPECT_EQ(Percentile(values, 0), 1);
  EXPECT_EQ(Percentile(std::vector<double>{7}, 0.99), 7);
}

TEST(Statistics, LatenciesAreOrderedAndEndInTheLargest) {
  const Latencies l = SummarizeLatencies({5, 1, 4, 2, 3, 100});
  EXPECT_EQ(l.p50_us, 3);
  EXPECT_LE(l.p90_us, l.p99_us);
  EXPECT_EQ(l.max_us, 100);
  EXPECT_TRUE(SummarizeLatencies({}).is_empty());
}

TEST(Statistics, VariationDoesNotDependOnTheUnit) {
  const std::vector<double> values = {1, 2, 3}, thousands = {1000, 2000, 3000};
  EXPECT_DOUBLE_EQ(CoefficientOfVariation(values), 0.5);
  EXPECT_DOUBLE_EQ(CoefficientOfVariation(thousands), 0.5);
  EXPECT_EQ(CoefficientOfVariation(std::vector<double>{1}), 0);
}

// ln ratios are 0, ln 2, ln 4: mean ln 2, deviation ln 2; t(2) = 4.303.
TEST(Statistics, ThePairsIntervalIsStudentsOnLogarithms) {
  const std::vector<double> ours = {1, 4, 12}, theirs = {1, 2, 3};
  const RatioInterval ratio = CompareInPairs(ours, theirs);
  EXPECT_DOUBLE_EQ(ratio.median, 2);
  const double half = 4.303 * std::log(2.0) / std::sqrt(3.0);
  EXPECT_NEAR(ratio.low, std::exp(std::log(2.0) - half), 1e-9);
  EXPECT_NEAR(ratio.high, std::exp(std::log(2.0) + half), 1e-9);
}

TEST(Statistics, WhatSlowsBothOfAPairDoesNotShow) {
  const std::vector<double> ours = {10, 1, 5}, theirs = {10, 1, 5};
  const RatioInterval ratio = CompareInPairs(ours, theirs);
  EXPECT_DOUBLE_EQ(ratio.low, 1);
  EXPECT_DOUBLE_EQ(ratio.high, 1);
}

// 100 bytes a second for two seconds, then 50 for two.
std::vector<DiskProgress> Slowing() {
  std::vector<DiskProgress> progress;
  for (int i = 0; i < 8; ++i) {
    progress.push_back({.seconds = 0.25 + 0.5 * i, .bytes = i < 4 ? 50 : 25});
  }
  return progress;
}

TEST(DiskSamples, LoopsOfTimeHaveTheBytesThatArrivedInThem) {
  EXPECT_EQ(RatesByTime(Slowing(), 0, 4, 2), (std::vector<double>{100, 50}));
  EXPECT_EQ(RatesByTime(Slowing(), 1, 3, 1), (std::vector<double>{75}));
}

TEST(DiskSamples, LoopsOfBytesTakeAsLongAsTheirBytesDid) {
  // Half of 300 bytes had arrived at 1.25 s, the rest at 3.75 s.
  const std::vector<double> rates = RatesByBytes(Slowing(), 2);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_DOUBLE_EQ(rates[0], 150 / 1.25);
  EXPECT_DOUBLE_EQ(rates[1], 150 / 2.5);
}

TEST(DiskSamples, TheWorstSecondIsAWholeOne) {
  EXPECT_EQ(WorstSecond(Slowing(), 0, 4), 50);
  EXPECT_EQ(WorstSecond(Slowing(), 0, 0.9), 0);
}

}  // namespace
}  // namespace strata
