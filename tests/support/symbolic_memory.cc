#include "tests/support/symbolic_memory.h"

#include <algorithm>

namespace strata {
namespace {

constexpr int64_t kBlock = 256;

std::vector<Extent> SmallExtents(const Layout& layout) {
  return {layout.tile_sums, layout.tile_sums_host, layout.losses,   layout.losses_host,
          layout.flags,     layout.flags_host,     layout.flags_cpu};
}

}  // namespace

uint64_t MixWord(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 31);
}

SymbolicMemory::SymbolicMemory(const PlanSet& set, const PlanKey& start,
                               uint64_t seed) {
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    std::vector<int64_t>& borders = borders_[static_cast<size_t>(tier)];
    for (int64_t b = 0; b <= set.arena_bytes[tier]; b += kBlock) borders.push_back(b);
    for (const Extent& extent : SmallExtents(set.layout)) {
      if (extent.tier != tier) continue;
      for (int64_t b = 0; b < extent.size_bytes; b += 4) {
        borders.push_back(extent.offset + b);
      }
    }
    std::sort(borders.begin(), borders.end());
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    first_word_[static_cast<size_t>(tier)] = words_.size();
    words_.resize(words_.size() + borders.size());
  }
  for (size_t i = 0; i < words_.size(); ++i) words_[i] = MixWord(seed, i);

  const Layout& layout = set.layout;
  const bool pending = start.start != Border::kSettled;
  uint64_t name = 1;
  for (const Extent& flags : {layout.flags, layout.flags_host}) Fill(flags, name);
  for (const Extent& extent :
       {layout.constants, layout.inputs_host, layout.flags_cpu}) {
    Fill(extent, ++name);
  }
  for (const LayerPlacement& layer : layout.layers) {
    Fill(layer.weights, ++name);
    for (const SliceLayout& slice : layer.slices) {
      Fill(slice.state, ++name);
      if (pending) Fill(slice.gradient, ++name);
      if (start.start == Border::kPending && start.kind == PlanKind::kTrain) {
        Fill(slice.speculated, ++name);
      }
    }
  }
}

SymbolicMemory::Words SymbolicMemory::Find(TierKind tier, int64_t offset,
                                           int64_t size_bytes) const {
  const size_t t = static_cast<size_t>(tier);
  const std::vector<int64_t>& borders = borders_[t];
  // A range that begins or ends inside a word takes all of it.
  const auto begin = std::upper_bound(borders.begin(), borders.end(), offset) - 1;
  const auto end =
      std::lower_bound(borders.begin(), borders.end(), offset + size_bytes);
  return {first_word_[t] + static_cast<size_t>(begin - borders.begin()),
          first_word_[t] + static_cast<size_t>(end - borders.begin())};
}

void SymbolicMemory::Fill(const Extent& extent, uint64_t seed) {
  if (extent.size_bytes == 0) return;
  const Words words = Find(extent.tier, extent.offset, extent.size_bytes);
  for (size_t i = words.begin; i < words.end; ++i) {
    words_[i] = MixWord(seed << 32, i - words.begin);
  }
}

void SymbolicMemory::Append(const Extent& extent, std::vector<uint64_t>& words) const {
  if (extent.size_bytes == 0) return;
  const Words found = Find(extent.tier, extent.offset, extent.size_bytes);
  for (size_t i = found.begin; i < found.end; ++i) words.push_back(words_[i]);
}

std::vector<uint64_t> SymbolicMemory::Homes(const PlanSet& set,
                                            const PlanKey& key) const {
  const Layout& layout = set.layout;
  const bool trained = key.kind == PlanKind::kTrain;
  std::vector<uint64_t> words;
  Append(layout.constants, words);
  Append(layout.flags, words);
  Append(layout.flags_cpu, words);
  for (const LayerPlacement& layer : layout.layers) {
    Append(layer.weights, words);
    for (const SliceLayout& slice : layer.slices) {
      Append(slice.state, words);
      if (trained) Append(slice.gradient, words);
      if (trained && key.speculate) Append(slice.speculated, words);
    }
  }
  return words;
}

std::vector<uint64_t> SymbolicMemory::Results(const PlanSet& set,
                                              const PlanKey& key) const {
  std::vector<uint64_t> words;
  if (key.kind == PlanKind::kTrain) Append(set.layout.tile_sums_host, words);
  if (key.kind != PlanKind::kFlush) {
    Extent losses = set.layout.losses_host;
    losses.size_bytes = int64_t{8} * key.micro_batches;
    Append(losses, words);
  }
  Append(set.layout.flags_host, words);
  return words;
}

}  // namespace strata
