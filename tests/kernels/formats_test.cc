#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/exp.h"
#include "kernels/master.h"
#include "runtime/base/float16.h"

namespace strata {
namespace {

/// Calls check(bits) for all 2^32 patterns and returns how many fail. The inner loop
/// vectorises, so that a pass takes a second.
template <typename Check>
int64_t CountFailures(const Check& check) {
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kBlocks = 1 << 16;
  std::vector<int64_t> failures(kThreads, 0);
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint32_t block = thread; block < kBlocks; block += kThreads) {
        int32_t failed = 0;
        for (uint32_t low = 0; low < 1 << 16; ++low) {
          failed += check(block << 16 | low) ? 0 : 1;
        }
        failures[thread] += failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::accumulate(failures.begin(), failures.end(), int64_t{0});
}

TEST(Master, EveryPatternComesBack) {
  EXPECT_EQ(CountFailures([](uint32_t bits) {
              const SplitMaster split = Split(bits);
              return Join(split.weight, split.remainder) == bits;
            }),
            0);
}

TEST(Master, WeightIsTheNearestBf16AndTiesGoAwayFromZero) {
  EXPECT_EQ(CountFailures([](uint32_t bits) {
              // At most half a unit of BF16's last place above, and less than it below.
              const uint32_t weight = uint32_t{Split(bits).weight} << 16;
              const auto error = static_cast<int32_t>(weight - bits);
              const bool near = (error > -0x8000) & (error <= 0x8000);
              const bool same_sign = (weight ^ bits) >> 31 == 0;
              return (MagnitudeBits(bits) >= kBadMasterBf16) | (near & same_sign);
            }),
            0);
}

TEST(Master, BadMastersAreThoseWhoseWeightIsNotFinite) {
  EXPECT_EQ(CountFailures([](uint32_t bits) {
              const bool bad = MagnitudeBits(bits) >= kBadMasterBf16;
              const bool bad_weight = (Split(bits).weight & 0x7F80) == 0x7F80;
              // Some NaNs have a finite weight: that is why masters are checked.
              return (MagnitudeBits(bits) > 0x7F800000) | (bad == bad_weight);
            }),
            0);
}

TEST(Bf16, RoundsAsTheRuntimeDoes) {
  // What is rounded off matters only as zero, below, at, or above the middle.
  for (uint32_t high = 0; high < 1 << 16; ++high) {
    for (const uint32_t low : {0x0000, 0x0001, 0x7FFF, 0x8000, 0x8001, 0xFFFF}) {
      const float value = FloatOfBits(high << 16 | low);
      ASSERT_EQ(Bf16OfFloat(value), Bf16FromFloat(value)) << high << " " << low;
    }
  }
}

TEST(Exp, IsWithinTwoUnitsInTheLastPlaceOfE) {
  for (double x = -87; x < 88.7; x += 0.00137) {
    const auto argument = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(argument));
    ASSERT_NEAR(Exp(argument), expected, 2 * 1.2e-7 * expected) << argument;
  }
  EXPECT_EQ(Exp(0.0f), 1.0f);
}

TEST(Exp, KeepsTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Exp(-infinity), 0.0f);
  EXPECT_EQ(Exp(infinity), infinity);
  EXPECT_EQ(Exp(89.0f), infinity);
  EXPECT_GT(Exp(-100.0f), 0.0f);  // a denormal
  EXPECT_TRUE(std::isnan(Exp(std::nanf(""))));
}

}  // namespace
}  // namespace strata
