#include "model/permutation.h"

#include <bit>

#include "runtime/base/status.h"

namespace strata {
Permutation::Permutation(int64_t size, uint64_t seed, int64_t epoch)
    : size_(static_cast<uint64_t>(size)) {
  STRATA_CHECK(size >= 1);
  half_bits_ = (std::bit_width(size_ - 1) + 1) / 2;
  uint64_t state = MixBits(MixBits(seed + 1) ^ static_cast<uint64_t>(epoch));
  for (uint64_t& key : keys_) key = MixBits(state += 0x9E3779B97F4A7C15);
}

// A Feistel network is a bijection of [0, 4^half_bits) whatever its round function.
uint64_t Permutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t key : keys_) {
    const uint64_t next = left ^ (MixBits(right ^ key) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

int64_t Permutation::operator()(int64_t position) const {
  STRATA_CHECK(position >= 0 && static_cast<uint64_t>(position) < size_);
  // Walking the cycle until it is back in the range keeps it a bijection; the network's
  // range is less than four times as large, so few rounds are needed.
  uint64_t value = static_cast<uint64_t>(position);
  do {
    value = Encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace strata
