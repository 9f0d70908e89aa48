#include "model/rotary.h"

#include <cmath>
#include <numbers>

namespace strata {
namespace {

// Llama 3.1's rule: long wavelengths are stretched by `factor`, short ones kept, and
// those between blended.
double StretchLlama3(const RopeConfig& rope, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double original = static_cast<double>(rope.original_max_position);
  if (wavelength < original / rope.high_freq_factor) return frequency;
  if (wavelength > original / rope.low_freq_factor) return frequency / rope.factor;
  const double blend = (original / wavelength - rope.low_freq_factor) /
                       (rope.high_freq_factor - rope.low_freq_factor);
  return (1 - blend) * frequency / rope.factor + blend * frequency;
}

}  // namespace

std::vector<double> RotaryFrequencies(const RopeConfig& rope, int64_t head_dim) {
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
    const double exponent =
        static_cast<double>(2 * pair) / static_cast<double>(head_dim);
    double frequency = 1 / std::pow(rope.theta, exponent);
    if (rope.type == RopeType::kLinear) frequency /= rope.factor;
    if (rope.type == RopeType::kLlama3) frequency = StretchLlama3(rope, frequency);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

void WriteRotaryTables(const RopeConfig& rope, int64_t head_dim, int64_t positions,
                       float* cosines, float* sines) {
  const std::vector<double> frequencies = RotaryFrequencies(rope, head_dim);
  for (int64_t position = 0; position < positions; ++position) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cosines++ = static_cast<float>(std::cos(angle));
      *sines++ = static_cast<float>(std::sin(angle));
    }
  }
}

}  // namespace strata
