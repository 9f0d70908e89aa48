/// Memory whose bytes are represented by one word per block: enough to tell whether an
/// operation found what it should.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// A word for every 256 bytes, and one for every 4 in the few small extents of results.
class SymbolicMemory {
 public:
  /// Fills everything with garbage that depends on `seed`, then the homes with contents
  /// that do not, as far as a plan of this key may count on them.
  SymbolicMemory(const PlanSet& set, const PlanKey& start, uint64_t seed);

  /// First and past-the-last word of a range.
  struct Words {
    size_t begin, end;
    size_t size() const { return end - begin; }
  };
  Words Find(TierKind tier, int64_t offset, int64_t size_bytes) const;
  Words Find(const Access& access) const {
    return Find(access.tier, access.offset, access.size_bytes);
  }
  uint64_t& operator[](size_t word) { return words_[word]; }
  uint64_t operator[](size_t word) const { return words_[word]; }

  void Fill(const Extent& extent, uint64_t seed);

  /// The words of all extents that matter after a plan of this key, in a fixed order.
  std::vector<uint64_t> Homes(const PlanSet& set, const PlanKey& key) const;
  /// What the trainer reads when the plan's result_op is complete.
  std::vector<uint64_t> Results(const PlanSet& set, const PlanKey& key) const;

 private:
  void Append(const Extent& extent, std::vector<uint64_t>& words) const;

  std::vector<int64_t> borders_[kTierCount];  // of words, in bytes, sorted
  size_t first_word_[kTierCount];
  std::vector<uint64_t> words_;
};

uint64_t MixWord(uint64_t hash, uint64_t word);

}  // namespace strata
