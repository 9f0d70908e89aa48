/// A Plan is the program of one training step, as data: which lane does what, on which
/// bytes of which tier, after what. The verifier proves it, the simulator times it, the
/// executor runs it; none of them decides anything.
///
/// A plan is written as a sequential program: executing the operations one by one in list
/// order is right. Lanes run in parallel; `waits` order every two operations that touch
/// the same bytes of which one writes, so that every interleaving gives the same bytes as
/// the list order (docs/decisions/0002-plans-are-sequential-programs.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/types.h"
#include "runtime/plan/step_trace.h"

namespace strata {

/// Something that works in parallel with the others. Operations of one lane start in list
/// order; all but the nvme lanes also finish one before they start the next.
enum class Lane : uint8_t {
  kCompute,
  kHostToDevice,
  kDeviceToHost,
  kNvmeRead,
  kNvmeWrite,
  kCpu,
  kCollective,
};
inline constexpr int kLaneCount = 7;
const char* Name(Lane lane);
/// False for the nvme lanes: their operations overlap, and only a wait orders them.
constexpr bool RunsOneByOne(Lane lane) {
  return lane != Lane::kNvmeRead && lane != Lane::kNvmeWrite;
}

enum class OpCode : uint8_t {
  kForward,     // a layer, a micro-batch; `recompute` if only `saved` is wanted
  kBackward,    // a layer, a micro-batch; the last layer computes the loss here
  kZero,        // an accumulator, before its first use
  kReduce,      // a slice: accumulator(s) -> rounded gradient and its norm tiles
  kUpdate,      // a slice: the optimizer, in place, with the gradient of its epoch
  kSpeculate,   // a slice: the next weight, as if the step will not clip
  kAdvance,     // a slice: kUpdate with the last step's gradient and kSpeculate with this
                // step's, in one pass; this step's may take the other's place
  kCopy,        // between device and host, or within one of them
  kRead,        // nvme -> host
  kWrite,       // host -> nvme
};
const char* Name(OpCode code);

/// What bytes mean. `index` is
///   kWeight, kState      steps applied, relative to this plan: 0 = all earlier steps are
///                        applied; -1 = the last one is still pending; 1 = this one is too
///   kGradient            the step that made it: 0 = this plan's, -1 = the one before
///   kSpeculated          as kWeight: 0 may be read as weight 0 if the step before did not
///                        clip; 1 is made in this plan
///   kAccumulator,        number of micro-batches added so far (0 = zeroed);
///   kSharedAccumulator   `layer` is the owner of the weights in both
///   kInputs, kActivation, kActivationGradient, kSaved, kLoss   micro-batch; `layer` is
///                        the one whose output (or its gradient, or saved bytes) it is
///   others               0
/// A range can hold a part of a value: value_offset says where in the value it begins.
/// Weights and gradients are laid out by element over the whole layer; state is packed by
/// slice, so that elements [b, e) occupy bytes [b, e) * format.state of the value.
enum class Role : uint8_t {
  kScratch,  // no value: contents are undefined before and after
  kConstants,
  kInputs,
  kWeight,
  kState,
  kGradient,
  kSpeculated,
  kAccumulator,
  kSharedAccumulator,
  kActivation,
  kActivationGradient,
  kSaved,
  kTileSums,  // fp32 sums of squares, all layers' tiles in canonical order
  kLoss,      // one double a micro-batch, at 8 * micro-batch
  kFlags,     // one int64 a layer: first bad element (AdamW::first_bad); never reset
};
const char* Name(Role role);

struct Value {
  Role role = Role::kScratch;
  int32_t layer = 0;
  int32_t index = 0;
  friend auto operator<=>(const Value&, const Value&) = default;
};
std::string ToString(const Value& value);

/// What an operation uses a range for. Each appears at most once per mode in an operation.
enum class Operand : uint8_t {
  kWeights,
  kSharedWeights,
  kConstants,
  kInputs,
  kInput,
  kOutput,
  kSaved,
  kWorkspace,
  kOutputGradient,
  kInputGradient,
  kAccumulator,
  kSharedAccumulator,
  kLoss,
  kGradient,
  kNextGradient,
  kTileSums,
  kState,
  kSpeculated,
  kFlags,
  kSource,
  kTarget,
};
inline constexpr int kOperandCount = 21;

enum class AccessMode : uint8_t { kRead, kWrite };

/// A byte range of one tier's arena (device, host) or of the store (nvme). Something that
/// is changed in place has a read and a write access of the same range.
struct Access {
  Operand operand;
  AccessMode mode;
  TierKind tier;
  int64_t offset = 0;
  int64_t size_bytes = 0;
  Value value;  // what a read finds there, what a write leaves there
  int64_t value_offset = 0;
  friend bool operator==(const Access&, const Access&) = default;
};

struct Op {
  OpCode code;
  Lane lane;
  int32_t layer = -1;
  int32_t micro_batch = -1;
  int32_t slice = -1;      // of Layout::layers[layer].slices
  bool recompute = false;  // kForward only
  uint32_t first_access = 0, access_count = 0;
  uint32_t first_wait = 0, wait_count = 0;  // earlier operations of this plan
  friend bool operator==(const Op&, const Op&) = default;
};

/// What is pending between two steps.
enum class Border : uint8_t {
  kSettled,         // every home holds the newest state
  kPending,         // gradients wait; speculated weights are right (no clip)
  kPendingClipped,  // gradients wait; speculated weights are wrong or were not made
};
const char* Name(Border border);

enum class PlanKind : uint8_t { kTrain, kEvaluate, kFlush };
const char* Name(PlanKind kind);

/// Names a plan of the set. Train: starts at `start`; ends pending (whether clipped is
/// known only then), or settled where every slice is updated immediately. Evaluate:
/// settled to settled. Flush: kPending (or clipped, the same plan) to settled.
struct PlanKey {
  PlanKind kind = PlanKind::kTrain;
  Border start = Border::kSettled;
  int32_t micro_batches = 1;
  bool speculate = true;  // Train only: lagged slices make their next weight
  friend auto operator<=>(const PlanKey&, const PlanKey&) = default;
};
std::string ToString(const PlanKey& key);

struct Plan {
  PlanKey key;
  std::vector<Op> ops;
  std::vector<Access> accesses;
  std::vector<uint32_t> waits;
  /// The operation after which the step's results (tile sums, losses, flags) are in host
  /// memory and the trainer may choose the next plan; others may still be under way.
  uint32_t result_op = 0;

  std::span<const Access> Accesses(const Op& op) const {
    return {accesses.data() + op.first_access, op.access_count};
  }
  std::span<const uint32_t> Waits(const Op& op) const {
    return {waits.data() + op.first_wait, op.wait_count};
  }
  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Waits of the second plan's operations on the first plan's, where the two may overlap.
/// The executor completes everything older than the first before it starts the second.
struct Link {
  struct Wait {
    uint32_t op;     // of the second plan
    uint32_t after;  // of the first plan
    friend bool operator==(const Wait&, const Wait&) = default;
  };
  int32_t first = 0, second = 0;  // indices into PlanSet::plans
  std::vector<Wait> waits;        // sorted by `op`
  friend bool operator==(const Link&, const Link&) = default;
};

struct Extent {
  TierKind tier = TierKind::kHost;
  int64_t offset = 0;
  int64_t size_bytes = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

enum class UpdateMode : uint8_t {
  kImmediate,  // under the backward; only where updates need not wait for the norm
  kDeferred,   // just before the next step's forward
  kLagged,     // speculated now, exactly in the next backward
};
const char* Name(UpdateMode mode);

/// Elements [begin, end) of a layer's trainable part; multiples of tile_elements.
struct SliceLayout {
  int64_t begin = 0, end = 0;
  UpdateMode mode = UpdateMode::kDeferred;
  Lane update_lane = Lane::kCompute;  // or kCpu
  Extent state;
  Extent gradient;    // empty for kImmediate
  Extent speculated;  // empty unless kLagged
  int64_t elements() const { return end - begin; }
  friend bool operator==(const SliceLayout&, const SliceLayout&) = default;
};

struct LayerPlacement {
  Extent weights;  // home of the flat buffer, total_elements * format.weight
  std::vector<SliceLayout> slices;  // in order, covering [0, trainable_elements)
  friend bool operator==(const LayerPlacement&, const LayerPlacement&) = default;
};

/// Homes: where everything rests between steps. On nvme a slice's weights are one extent
/// and the frozen rest of the layer another; they are transferred as such.
struct Layout {
  std::vector<LayerPlacement> layers;
  Extent constants;      // device
  Extent inputs_host;    // micro_batches * input_bytes, written by the trainer
  Extent tile_sums;      // device; the canonical order of StepTrace::FirstTile
  Extent tile_sums_host;
  Extent losses;         // device, one double a micro-batch
  Extent losses_host;
  Extent flags;          // device, one int64 a layer
  Extent flags_host;     // copy of the device's
  Extent flags_cpu;      // host, one int64 a layer, of updates in the cpu lane, which may
                         // still be under way when a step has ended: read it atomically
  friend bool operator==(const Layout&, const Layout&) = default;
};

/// Size of each tier's arena: the high water of all plans of the set.
struct TierBytes {
  int64_t device = 0, host = 0, nvme = 0;
  int64_t& operator[](TierKind tier) {
    return tier == TierKind::kDevice ? device : tier == TierKind::kHost ? host : nvme;
  }
  int64_t operator[](TierKind tier) const {
    return tier == TierKind::kDevice ? device : tier == TierKind::kHost ? host : nvme;
  }
  friend bool operator==(const TierBytes&, const TierBytes&) = default;
};

/// Everything that a run executes, compiled and verified together.
struct PlanSet {
  StepTrace trace;
  Layout layout;
  std::vector<Plan> plans;
  std::vector<Link> links;  // of every two plans that may follow each other
  TierBytes arena_bytes;

  /// Index of the plan with this key, or -1.
  int32_t Find(const PlanKey& key) const;
  /// Index of the link, or -1 where `second` may not follow `first`.
  int32_t FindLink(int32_t first, int32_t second) const;
};

/// May a plan that starts at `next.start` follow `plan`? (A skipped step makes what is
/// pending void: the state is settled again.)
bool MayFollow(const PlanSet& set, const Plan& plan, const PlanKey& next);

/// "block.3/state[2]" where a slice's state is moved, "block.3/forward[0]" where a
/// micro-batch is computed: for messages and timelines.
std::string Describe(const StepTrace& trace, const Plan& plan, const Op& op);

}  // namespace strata
