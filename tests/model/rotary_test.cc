#include "model/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace strata {
namespace {

TEST(Rotary, TablesHoldTheAnglesOfFarPositions) {
  constexpr int64_t kHeadDim = 8, kPositions = 8192;
  std::vector<float> cosines(kPositions * kHeadDim / 2), sines(cosines.size());
  WriteRotaryTables({.theta = 10000}, kHeadDim, kPositions, cosines.data(),
                    sines.data());
  for (const int64_t position : {0, 1, 255, 256, 257, 4159, 8191}) {
    for (int64_t pair = 0; pair < kHeadDim / 2; ++pair) {
      const double angle =
          static_cast<double>(position) *
          std::pow(10000.0, -2.0 * static_cast<double>(pair) / kHeadDim);
      const auto i = static_cast<size_t>(position * kHeadDim / 2 + pair);
      EXPECT_NEAR(cosines[i], std::cos(angle), 1e-7);
      EXPECT_NEAR(sines[i], std::sin(angle), 1e-7);
    }
  }
}

TEST(Rotary, LinearScalingDividesEveryFrequency) {
  const std::vector<double> plain = RotaryFrequencies({.theta = 10000}, 16);
  const std::vector<double> scaled =
      RotaryFrequencies({.theta = 10000, .type = RopeType::kLinear, .factor = 4}, 16);
  ASSERT_EQ(plain.size(), 8u);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_DOUBLE_EQ(scaled[i], plain[i] / 4);
}

TEST(Rotary, Llama3KeepsShortWavesStretchesLongOnesAndBlendsBetween) {
  const std::vector<double> frequencies =
      RotaryFrequencies({.theta = 500000,
                         .type = RopeType::kLlama3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position = 8192},
                        128);
  // Llama 3.1's own numbers, computed elsewhere.
  const struct {
    size_t pair;
    double frequency;
  } expected[] = {{0, 1},
                  {20, 0.016560440081},
                  {28, 0.00321144599475},
                  {29, 0.0021665707635},
                  {32, 0.000524846160993},
                  {34, 0.000178507812768},
                  {35, 9.55621235396e-05},
                  {36, 7.78465527393e-05},
                  {63, 3.06892598891e-07}};
  for (const auto& [pair, frequency] : expected) {
    EXPECT_NEAR(frequencies[pair], frequency, 1e-11 * frequency) << pair;
  }
}

}  // namespace
}  // namespace strata
