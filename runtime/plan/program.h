/// A plan while it is being written: operations on buffers that have no address yet.
///
/// The writer appends *items*, each a piece of computation with what must be loaded for
/// it and what is stored after it. Schedule() turns the items into one list in which
/// loads stand as early as their sources and their pool's slots allow: that is the
/// prefetching.
#pragma once

#include <absl/container/inlined_vector.h>

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// Buffers of one purpose share slots: buffer i of a pool may take the memory of buffer
/// i - slots at the earliest.
enum class Pool : uint8_t {
  kUnbounded,  // lives as long as it is used (activations at their home)
  kCompute,    // used by the compute lane only: one after the other
  kWeights,
  kOldWeights,
  kState,
  kGradientIn,
  kGradientOut,
  kSpeculated,
  kActivationIn,
  kActivationOut,
  kAccumulatorMove,
  kStageIn,
  kStageOut,
  kArrived,  // gradients in host memory, for the cpu lane
};
inline constexpr int kPoolCount = 14;

/// Memory that an access names: `offset` within buffer `buffer`, or, if that is
/// negative, within the tier's arena.
struct Place {
  TierKind tier = TierKind::kDevice;
  int32_t buffer = -1;
  int64_t offset = 0;
  Place operator+(int64_t bytes) const { return {tier, buffer, offset + bytes}; }
};
inline Place At(const Extent& extent) { return {extent.tier, -1, extent.offset}; }

struct VirtualAccess {
  Operand operand;
  AccessMode mode;
  Place place;
  int64_t size_bytes;
  Value value;
  int64_t value_offset = 0;
};

struct VirtualOp {
  Op op;
  absl::InlinedVector<VirtualAccess, 2> accesses;  // most are transfers

  VirtualOp& Read(Operand operand, Place place, int64_t size_bytes, Value value,
                  int64_t value_offset = 0);
  VirtualOp& Write(Operand operand, Place place, int64_t size_bytes, Value value,
                   int64_t value_offset = 0);
};

/// A part of a value, of one shard: what a transfer moves.
struct Piece {
  Value value;
  int64_t value_offset = 0;
  int64_t size_bytes = 0;
  int32_t slice = -1;
  int32_t micro_batch = -1;
};

struct VirtualBuffer {
  TierKind tier;
  Pool pool;
  int64_t size_bytes;
  int32_t first_use = -1, last_use = -1;  // positions in the scheduled list
  int64_t offset = -1;                    // set by packing
};

class Program {
 public:
  int32_t NewBuffer(TierKind tier, int64_t size_bytes, Pool pool);
  Place New(TierKind tier, int64_t size_bytes, Pool pool) {
    return {tier, NewBuffer(tier, size_bytes, pool), 0};
  }

  /// Starts the next item. What follows belongs to it.
  void BeginItem() { items_.emplace_back(); }

  /// Brings `piece` from `source` into device or host memory at `target`, through
  /// staging where source and target do not touch. No later than this item, as early as
  /// possible after the item that wrote the source.
  void Load(const Piece& piece, Place source, Place target);
  /// Appends a computation. What it writes may be loaded by later items only.
  void Do(VirtualOp op);
  /// Appends the transfer of `piece` from memory at `source` to its home at `target`.
  void Store(const Piece& piece, Place source, Place target);

  /// Orders everything. `slots[pool]` buffers of a pool are held at once, where that is
  /// possible; 0 means no limit.
  std::vector<VirtualOp> Schedule(const std::vector<int32_t>& slots);

  std::vector<VirtualBuffer>& buffers() { return buffers_; }

 private:
  struct LoadStep {
    VirtualOp op;
    int32_t item = 0;         // needed by this item
    int32_t after_item = -1;  // its source is written there
    int32_t after_load = -1;  // index into loads_: the step before in the same transfer
    int32_t target_buffer = -1;
  };
  struct Item {
    std::vector<VirtualOp> ops;
  };
  class Scheduler;

  using Location = std::pair<TierKind, std::pair<int32_t, int64_t>>;
  static Location Where(Place place) {
    return {place.tier, {place.buffer, place.offset}};
  }
  struct HashLocation {
    size_t operator()(const Location& location) const {
      const auto& [buffer, offset] = location.second;
      constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
      uint64_t hash = (static_cast<uint64_t>(location.first) + 1) * kOdd;
      hash = (hash ^ static_cast<uint32_t>(buffer)) * kOdd;
      return static_cast<size_t>((hash ^ static_cast<uint64_t>(offset)) * kOdd);
    }
  };
  int32_t AddLoad(VirtualOp op, int32_t after_load, Place source, Place target);

  std::vector<Item> items_;
  std::vector<LoadStep> loads_;  // in item order
  std::vector<VirtualBuffer> buffers_;
  std::unordered_map<Location, int32_t, HashLocation> written_by_item_;  // last item that stored there
};

/// A transfer operation of `piece` in `lane`.
VirtualOp Transfer(OpCode code, Lane lane, const Piece& piece, Place source,
                   Place target);

}  // namespace strata
