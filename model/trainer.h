/// Trains a list of layers through three tiers: the first thing that an application
/// makes.
///
///   ModelShape model = ...;                    // layers, micro-batch, dtype
///   auto trainer = Trainer::Create(std::move(model), options);
///   (*trainer)->LoadWeights(reader);
///   while (...) (*trainer)->Step(micro_batches, learning_rate);
///   (*trainer)->ReadWeights(writer);           // settled weights, tensor by tensor
///
/// checkpoint_folder.h saves a trainer and resumes it.
///
/// Create plans and verifies before anything is allocated; what does not fit is refused
/// with numbers. Steps are exact: the same bits as an update after a full barrier,
/// wherever the bytes rest and whenever the optimizer really runs.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/layer.h"
#include "model/model_trace.h"
#include "model/numerics.h"
#include "model/optimizer.h"
#include "model/parts.h"
#include "model/step_runner.h"
#include "runtime/device/device.h"
#include "runtime/plan/executor.h"
#include "runtime/plan/planner.h"

namespace strata {

/// What the plan asks of the nvme tier.
struct StoreNeeds {
  int64_t capacity_bytes = 0;
  int64_t extent_count = 0;        // different offsets at which transfers begin
  int32_t requests_in_flight = 0;  // at most, in each direction
};
StoreNeeds StoreNeedsOf(const PlanSet& set);

struct TrainerOptions {
  OptimizerSettings optimizer;
  Budgets budgets;  // of the arenas
  PlacementPins pins;
  PlannerOverrides overrides;
  MachineProfile profile;
  /// Sizes of partial steps that will come up (the end of an epoch), beside full ones.
  std::vector<int32_t> partial_steps;
  bool evaluates = false;
  /// False: nothing is ever trained, and no tensor of the model may be trainable. Only
  /// weights are kept then.
  bool trains = true;
  KernelOptions kernels;
  Device* device = nullptr;       // computes; outlives the trainer
  Device* host_device = nullptr;  // a CpuDevice for the cpu lane; may be `device`
  /// Makes the nvme tier once its size is known. Needed only where the plan uses one.
  std::function<absl::StatusOr<std::unique_ptr<Store>>(const StoreNeeds&)> make_store;
  /// The profile that the run is held to, and where it comes from, for the message.
  std::optional<NumericsProfile> required_numerics;
  std::string required_numerics_name;
  Clock* clock = &Clock::Real();
  int32_t timeline_steps = 4;
};

/// The inputs of one micro-batch; all spans hold MicroBatchShape::tokens() values.
struct MicroBatch {
  std::span<const int32_t> tokens;
  std::span<const int32_t> targets;  // already shifted; kIgnoredLabel = not trained
  std::span<const int32_t> positions;
  std::span<const int32_t> documents;
};

struct StepResult {
  double loss = 0;  // token-weighted mean over the step; NaN if nothing was trained
  double grad_norm = 0;  // before clipping; not finite in a skipped step
  bool clipped = false;
  bool skipped = false;  // non-finite norm, or no trained token: nothing was updated
  int64_t trained_tokens = 0;
  StepReport report;
};

/// Fills `values` with elements [first, first + values.size()) of `tensor`, as fp32.
using TensorReader = std::function<absl::Status(const TensorSpec& tensor, int64_t first,
                                                std::span<float> values)>;
/// Receives elements [first, ...) of `tensor` in ascending order, exactly as fp32: for
/// bf16 training the weights, not the masters.
using TensorWriter = std::function<absl::Status(const TensorSpec& tensor, int64_t first,
                                                std::span<const float> values)>;

/// Which logits Trainer::Logits computes.
struct LogitsRequest {
  /// Of the micro-batch: as planned, or fewer sequences, or shorter ones.
  MicroBatchShape shape;
  std::span<const int32_t> rows;  // tokens of the micro-batch, in [0, shape.tokens())
  std::span<float> values;        // receives fp32 [rows, vocab]
};

/// One kind of state of a tensor, for tests and checkpoints: fp32 master and moments.
enum class StateKind : uint8_t { kMaster, kMoment1, kMoment2 };

/// What a settled trainer knows beside its tensors.
struct TrainerProgress {
  int64_t applied_steps = 0;  // Adam's t
  /// Bit i: whether the step i applied steps before was clipped. It decides whether
  /// updates lag, and no bit of a result.
  uint16_t recent_clips = 0;

  bool operator==(const TrainerProgress&) const = default;
};

/// Not thread-safe. After an error every call returns it.
class Trainer {
 public:
  /// ResourceExhausted if no plan fits the budgets; FailedPrecondition if the plan
  /// needs nvme and there is no make_store, or if the numerics are not those required.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(ModelShape model,
                                                         TrainerOptions options);
  virtual ~Trainer() = default;

  /// Sets weights, and moments to zero. Before the first step.
  virtual absl::Status LoadWeights(const TensorReader& reader) = 0;

  /// Puts a saved trainer's state into this new one: `fill` fills every part of every
  /// tensor. Before the first step.
  virtual absl::Status Restore(const TrainerProgress& progress,
                               const PartsVisitor& fill) = 0;

  /// One optimizer step over 1 to ModelShape::micro_batches micro-batches (a number
  /// that was announced).
  virtual absl::StatusOr<StepResult> Step(std::span<const MicroBatch> micro_batches,
                                          double learning_rate) = 0;

  /// Sum of losses of the trained tokens of `micro_batches` (any number), with the
  /// weights after all steps so far. Settles first. `logits`, if not empty, receives
  /// every token's logits, fp32 [micro-batch, token, vocab].
  virtual absl::StatusOr<double> Evaluate(std::span<const MicroBatch> micro_batches,
                                          std::span<float> logits = {}) = 0;

  /// Logits of some tokens of one micro-batch, whose spans hold request.shape.tokens()
  /// values; its targets are not read. Settles first. REQUIRES:
  /// TrainerOptions::evaluates and one micro-batch in a step.
  virtual absl::Status Logits(const MicroBatch& batch,
                              const LogitsRequest& request) = 0;

  /// Applies everything that is pending.
  virtual absl::Status Settle() = 0;
  /// Settles, then reads every tensor, in the order of layers and of tensors in a
  /// layer.
  virtual absl::Status ReadWeights(const TensorWriter& writer) = 0;
  virtual absl::Status ReadState(StateKind kind, const TensorWriter& writer) = 0;

  /// Settles, then shows every part of every tensor as it rests, in the order of layers
  /// and of tensors in a layer's layout, each home once.
  virtual absl::Status ReadParts(const PartsVisitor& visit) = 0;

  /// REQUIRES: nothing failed; of the last step, also before it is settled.
  virtual TrainerProgress progress() const = 0;
  virtual const NumericsProfile& numerics() const = 0;
  /// Optimizer steps that were applied (not skipped).
  virtual int64_t applied_steps() const = 0;
  virtual const ModelShape& model() const = 0;
  virtual const PlannedStep& plan() const = 0;
  virtual const Executor& executor() const = 0;
  virtual const Store* store() const = 0;  // null if the plan uses no nvme
};

/// Plans as Trainer::Create would, without a device's memory: for tierplan and
/// --explain_plan.
absl::StatusOr<PlannedStep> PlanTraining(const ModelShape& model,
                                         const TrainerOptions& options,
                                         int64_t matmul_workspace_bytes);

}  // namespace strata
