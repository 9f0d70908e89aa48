/// The order of samples in an epoch, as a pure function of (seed, epoch, position): no
/// list to keep, nothing to save in a checkpoint, and the same on every machine.
#pragma once

#include <cstdint>

namespace strata {

/// splitmix64's finaliser: a bijection in which every bit of the result depends on all
/// of x.
constexpr uint64_t MixBits(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

/// A bijection of [0, size) onto itself. Plain data, thread-safe.
class Permutation {
 public:
  /// REQUIRES: size >= 1.
  Permutation(int64_t size, uint64_t seed, int64_t epoch);

  /// REQUIRES: 0 <= position < size.
  int64_t operator()(int64_t position) const;

 private:
  static constexpr int kRounds = 6;
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  int half_bits_;
  uint64_t keys_[kRounds];
};

}  // namespace strata
