#include "model/trainer.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cmath>
#include <cstring>
#include <limits>

#include "model/home_state.h"
#include "model/inputs.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/plan/verifier.h"

namespace strata {
namespace {

class TrainerImpl final : public Trainer {
 public:
  TrainerImpl(ModelShape model, TrainerOptions options)
      : model_(std::move(model)), options_(std::move(options)) {
    for (const auto& layer : model_.layers) layouts_.push_back(MakeLayout(*layer));
  }

  absl::Status Init();
  absl::Status LoadWeights(const TensorReader& reader) override;
  absl::Status Restore(const TrainerProgress& progress,
                       const PartsVisitor& fill) override;
  absl::StatusOr<StepResult> Step(std::span<const MicroBatch> micro_batches,
                                  double learning_rate) override;
  absl::StatusOr<double> Evaluate(std::span<const MicroBatch> micro_batches,
                                  std::span<float> logits) override;
  absl::Status Logits(const MicroBatch& batch, const LogitsRequest& request) override;
  absl::Status Settle() override;
  absl::Status ReadWeights(const TensorWriter& writer) override;
  absl::Status ReadState(StateKind kind, const TensorWriter& writer) override;
  absl::Status ReadParts(const PartsVisitor& visit) override;
  TrainerProgress progress() const override {
    return {applied_steps_, static_cast<uint16_t>(recent_clips_.to_ulong())};
  }
  const NumericsProfile& numerics() const override { return numerics_; }
  int64_t applied_steps() const override { return applied_steps_; }
  const ModelShape& model() const override { return model_; }
  const PlannedStep& plan() const override { return plan_; }
  const Executor& executor() const override { return *executor_; }
  const Store* store() const override { return store_.get(); }

 private:
  absl::Status InitHomes();
  /// Where the inputs of a micro-batch go.
  std::byte* Inputs(int32_t slot) const {
    return Host<std::byte>(plan_.set.layout.inputs_host) +
           slot * plan_.set.trace.input_bytes;
  }
  absl::StatusOr<StepReport> RunPlan(const PlanKey& key, const RunScalars& scalars);
  PlanKey NextStep(int32_t micro_batches) const;
  double SumLosses(int32_t micro_batches) const;
  double GradientNorm() const;
  absl::Status CheckFlags();
  absl::Status Finish(double norm, double learning_rate, StepResult& result);
  template <typename T>
  T* Host(const Extent& extent) const {
    return reinterpret_cast<T*>(executor_->host_memory() + extent.offset);
  }

  ModelShape model_;
  TrainerOptions options_;
  std::vector<LayerLayout> layouts_;
  NumericsProfile numerics_;
  PlannedStep plan_;
  std::unique_ptr<Kernels> device_kernels_, cpu_kernels_;
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Executor> executor_;  // after what it uses: it is destroyed first
  bool has_lagged_ = false;
  bool has_pending_ = false;

  Border border_ = Border::kSettled;
  AdamWScalars pending_{};  // of the last applied step
  uint64_t runs_ = 0;
  int64_t applied_steps_ = 0;
  std::bitset<16> recent_clips_;
  absl::Status dead_;  // the error that ended this trainer
};

absl::Status TrainerImpl::Init() {
  STRATA_CHECK(options_.device != nullptr && options_.host_device != nullptr);
  STRATA_ASSIGN_OR_RETURN(device_kernels_,
                          CreateKernels(options_.device->kind(), options_.kernels));
  STRATA_ASSIGN_OR_RETURN(cpu_kernels_,
                          CreateKernels(DeviceKind::kCpu, options_.kernels));
  numerics_ = NumericsOf(model_, *device_kernels_);
  if (options_.required_numerics) {
    STRATA_RETURN_IF_ERROR(CheckNumerics(*options_.required_numerics, numerics_,
                                         options_.required_numerics_name));
  }
  STRATA_ASSIGN_OR_RETURN(
      plan_, PlanTraining(model_, options_, device_kernels_->matmul_workspace_bytes()));
  STRATA_RETURN_IF_ERROR(VerifyPlanSet(plan_.set, options_.budgets));
  for (const LayerPlacement& layer : plan_.set.layout.layers) {
    for (const SliceLayout& slice : layer.slices) {
      has_lagged_ |= slice.mode == UpdateMode::kLagged;
      has_pending_ |= slice.mode != UpdateMode::kImmediate;
    }
  }
  runner_ = std::make_unique<StepRunner>(model_, layouts_, plan_.set.trace,
                                         *device_kernels_, *cpu_kernels_);
  runner_->SetLayout(&plan_.set.layout);
  if (plan_.set.arena_bytes.nvme > 0) {
    if (!options_.make_store) {
      return absl::FailedPreconditionError(
          "the plan keeps shards on nvme, but no nvme path was given");
    }
    STRATA_ASSIGN_OR_RETURN(store_, options_.make_store(StoreNeedsOf(plan_.set)));
  }
  STRATA_ASSIGN_OR_RETURN(
      executor_,
      Executor::Create(plan_.set, {.device = options_.device,
                                   .host_device = options_.host_device,
                                   .store = store_.get(),
                                   .runner = runner_.get(),
                                   .clock = options_.clock,
                                   .timeline_steps = options_.timeline_steps}));
  return InitHomes();
}

absl::Status TrainerImpl::InitHomes() {
  const Layout& layout = plan_.set.layout;
  std::vector<std::byte> constants(static_cast<size_t>(layout.constants.size_bytes));
  const std::vector<int64_t> offsets = ConstantOffsets(model_);
  for (size_t l = 0; l < model_.layers.size(); ++l) {
    const Layer& layer = *model_.layers[l];
    if (layer.constants_layer() < 0 && layer.ConstantBytes(model_.micro_batch) > 0) {
      layer.WriteConstants(model_.micro_batch, constants.data() + offsets[l]);
    }
  }
  if (!constants.empty()) {
    STRATA_RETURN_IF_ERROR(executor_->WriteHome(layout.constants, constants));
  }
  const std::vector<int64_t> clean(model_.layers.size(),
                                   std::numeric_limits<int64_t>::max());
  for (const Extent& flags : {layout.flags, layout.flags_host, layout.flags_cpu}) {
    STRATA_RETURN_IF_ERROR(
        executor_->WriteHome(flags, std::as_bytes(std::span(clean))));
  }
  return absl::OkStatus();
}

absl::Status TrainerImpl::LoadWeights(const TensorReader& reader) {
  STRATA_CHECK(runs_ == 0);
  return WriteInitialState(model_, layouts_, plan_.set, reader, *executor_);
}

absl::Status TrainerImpl::Restore(const TrainerProgress& progress,
                                  const PartsVisitor& fill) {
  STRATA_CHECK(runs_ == 0);
  applied_steps_ = progress.applied_steps;
  recent_clips_ = progress.recent_clips;
  return WriteHomeParts(model_, layouts_, plan_.set, fill, *executor_);
}

absl::StatusOr<StepReport> TrainerImpl::RunPlan(const PlanKey& key,
                                                const RunScalars& scalars) {
  const int32_t plan = plan_.set.Find(key);
  if (plan < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "no plan was compiled for ", ToString(key), ": announce it in partial_steps"));
  }
  runner_->SetScalars(++runs_, scalars);
  absl::StatusOr<StepReport> report = executor_->Run(plan);
  if (!report.ok()) dead_ = report.status();
  return report;
}

PlanKey TrainerImpl::NextStep(int32_t micro_batches) const {
  PlanKey key{PlanKind::kTrain, border_, micro_batches, true};
  if (!has_lagged_) {
    if (key.start == Border::kPendingClipped) key.start = Border::kPending;
  } else {
    // A speculated weight is wrong after a clip, and was made in vain.
    key.speculate = recent_clips_.count() <= recent_clips_.size() / 2;
  }
  return key;
}

absl::StatusOr<StepResult> TrainerImpl::Step(std::span<const MicroBatch> micro_batches,
                                             double learning_rate) {
  STRATA_RETURN_IF_ERROR(dead_);
  STRATA_CHECK(!micro_batches.empty() &&
               micro_batches.size() <= static_cast<size_t>(model_.micro_batches));
  StepResult result;
  int32_t slot = 0;
  for (const MicroBatch& batch : micro_batches) {
    result.trained_tokens +=
        std::count_if(batch.targets.begin(), batch.targets.end(),
                      [](int32_t target) { return target != kIgnoredLabel; });
    WriteInputs(batch, model_.micro_batch.tokens(), Inputs(slot++));
  }
  if (result.trained_tokens == 0) {
    result.skipped = true;
    result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  const PlanKey key = NextStep(slot);
  const RunScalars scalars{
      .pending = pending_,
      .current = ScalarsOf(options_.optimizer, learning_rate, applied_steps_ + 1, 1.0),
      .loss_scale =
          static_cast<float>(1.0 / static_cast<double>(result.trained_tokens)),
  };
  STRATA_ASSIGN_OR_RETURN(result.report, RunPlan(key, scalars));
  result.loss = SumLosses(slot) / static_cast<double>(result.trained_tokens);
  result.grad_norm = GradientNorm();
  STRATA_RETURN_IF_ERROR(Finish(result.grad_norm, learning_rate, result));
  STRATA_RETURN_IF_ERROR(CheckFlags());
  if (!result.skipped && has_lagged_ && !result.clipped && !key.speculate) {
    border_ = Border::kPendingClipped;  // no speculated weight was made
  }
  return result;
}

absl::Status TrainerImpl::Finish(double norm, double learning_rate,
                                 StepResult& result) {
  if (!std::isfinite(norm)) {
    if (!UpdatesWait(options_.optimizer)) {
      dead_ = WithMend(
          absl::DataLossError(absl::StrCat(
              "the gradient of step ", applied_steps_ + 1, " is not finite (norm ",
              norm, ", loss ", result.loss,
              ") and part of it has been applied already; nothing is saved")),
          "lower the learning rate, or set gradient clipping: then such steps are "
          "skipped");
      return dead_;
    }
    result.skipped = true;
    border_ = Border::kSettled;  // what the step left pending is void
    return absl::OkStatus();
  }
  ++applied_steps_;
  pending_ = ScalarsOf(options_.optimizer, learning_rate, applied_steps_,
                       ClipFactor(options_.optimizer, norm));
  // Judged in the precision that the update uses: that decides whether bits differ.
  result.clipped = pending_.gradient_scale != 1.0f;
  recent_clips_ <<= 1;
  recent_clips_[0] = result.clipped;
  border_ = !has_pending_    ? Border::kSettled
            : result.clipped ? Border::kPendingClipped
                             : Border::kPending;
  return absl::OkStatus();
}

double TrainerImpl::SumLosses(int32_t micro_batches) const {
  const double* losses = Host<double>(plan_.set.layout.losses_host);
  double sum = 0;
  for (int32_t m = 0; m < micro_batches; ++m) sum += losses[m];
  return sum;
}

double TrainerImpl::GradientNorm() const {
  const float* tiles = Host<float>(plan_.set.layout.tile_sums_host);
  const int64_t count = plan_.set.trace.TotalTiles();
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += tiles[i];
  return std::sqrt(sum);
}

absl::Status TrainerImpl::CheckFlags() {
  const Layout& layout = plan_.set.layout;
  for (size_t l = 0; l < layouts_.size(); ++l) {
    const int64_t bad = std::min(Host<int64_t>(layout.flags_host)[l],
                                 // The cpu lane may still be updating.
                                 std::atomic_ref(Host<int64_t>(layout.flags_cpu)[l])
                                     .load(std::memory_order_relaxed));
    if (bad == std::numeric_limits<int64_t>::max()) continue;
    for (const TensorPlacement& tensor : layouts_[l].tensors) {
      if (bad >= tensor.first_element + tensor.count) continue;
      dead_ = WithMend(absl::DataLossError(absl::StrCat(
                           "by step ", applied_steps_, " element ",
                           bad - tensor.first_element, " of tensor '", tensor.spec.name,
                           "' has become infinite or not a number; nothing is saved")),
                       "lower the learning rate");
      return dead_;
    }
  }
  return absl::OkStatus();
}

absl::Status TrainerImpl::Settle() {
  STRATA_RETURN_IF_ERROR(dead_);
  if (border_ != Border::kSettled) {
    const PlanKey flush{PlanKind::kFlush, Border::kPending, model_.micro_batches, true};
    STRATA_RETURN_IF_ERROR(RunPlan(flush, {.pending = pending_}).status());
    border_ = Border::kSettled;
  }
  dead_ = executor_->Drain();
  STRATA_RETURN_IF_ERROR(dead_);
  return CheckFlags();
}

absl::StatusOr<double> TrainerImpl::Evaluate(std::span<const MicroBatch> micro_batches,
                                             std::span<float> logits) {
  STRATA_RETURN_IF_ERROR(Settle());
  const PlanKey key{PlanKind::kEvaluate, Border::kSettled, model_.micro_batches, true};
  const int64_t tokens = model_.micro_batch.tokens();
  const int64_t stride =
      logits.empty() ? 0 : static_cast<int64_t>(logits.size() / micro_batches.size());
  // Kernels write logits straight into host memory that the device can reach.
  STRATA_ASSIGN_OR_RETURN(
      const Buffer buffer,
      options_.device->Allocate(MemoryKind::kPinnedHost, stride * model_.micro_batches *
                                                             int64_t{sizeof(float)}));
  STRATA_CHECK(stride % tokens == 0);
  double sum = 0;
  for (size_t first = 0; first < micro_batches.size();) {
    const size_t count = std::min(micro_batches.size() - first,
                                  static_cast<size_t>(model_.micro_batches));
    for (int32_t slot = 0; slot < model_.micro_batches; ++slot) {
      if (static_cast<size_t>(slot) < count) {
        WriteInputs(micro_batches[first + static_cast<size_t>(slot)], tokens,
                    Inputs(slot));
      } else {
        WriteUntrainedInputs(tokens, Inputs(slot));
      }
    }
    RunScalars scalars;
    scalars.logits = reinterpret_cast<float*>(buffer.data());
    scalars.logits_stride = stride;
    STRATA_RETURN_IF_ERROR(RunPlan(key, scalars).status());
    STRATA_RETURN_IF_ERROR(CheckFlags());
    sum += SumLosses(model_.micro_batches);
    if (!logits.empty()) {
      const size_t size = count * static_cast<size_t>(stride);
      std::memcpy(logits.data() + first * static_cast<size_t>(stride), buffer.data(),
                  size * sizeof(float));
    }
    first += count;
  }
  return sum;
}

absl::Status TrainerImpl::Logits(const MicroBatch& batch,
                                 const LogitsRequest& request) {
  STRATA_CHECK(model_.micro_batches == 1 && !request.rows.empty() &&
               request.shape.sequences <= model_.micro_batch.sequences &&
               request.shape.length <= model_.micro_batch.length);
  STRATA_RETURN_IF_ERROR(Settle());
  // The device reads the rows from host memory, and writes the logits there.
  const int64_t value_bytes =
      AlignUp(static_cast<int64_t>(request.values.size_bytes()), 256);
  const int64_t row_bytes = static_cast<int64_t>(request.rows.size_bytes());
  STRATA_ASSIGN_OR_RETURN(
      const Buffer buffer,
      options_.device->Allocate(MemoryKind::kPinnedHost, value_bytes + row_bytes));
  std::memcpy(buffer.data() + value_bytes, request.rows.data(),
              request.rows.size_bytes());
  WriteInputs(batch, request.shape.tokens(), Inputs(0));
  RunScalars scalars;
  scalars.shape = request.shape;
  scalars.logits = reinterpret_cast<float*>(buffer.data());
  scalars.logit_rows = reinterpret_cast<int32_t*>(buffer.data() + value_bytes);
  scalars.logit_row_count = static_cast<int64_t>(request.rows.size());
  const PlanKey key{PlanKind::kEvaluate, Border::kSettled, 1, true};
  STRATA_RETURN_IF_ERROR(RunPlan(key, scalars).status());
  std::memcpy(request.values.data(), buffer.data(), request.values.size_bytes());
  return absl::OkStatus();
}

absl::Status TrainerImpl::ReadWeights(const TensorWriter& writer) {
  STRATA_RETURN_IF_ERROR(Settle());
  return ReadHomeWeights(model_, layouts_, plan_.set, writer, *executor_);
}

absl::Status TrainerImpl::ReadState(StateKind kind, const TensorWriter& writer) {
  STRATA_RETURN_IF_ERROR(Settle());
  return ReadHomeState(model_, layouts_, plan_.set, kind, writer, *executor_);
}

absl::Status TrainerImpl::ReadParts(const PartsVisitor& visit) {
  STRATA_RETURN_IF_ERROR(Settle());
  return ReadHomeParts(model_, layouts_, plan_.set, visit, *executor_);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(ModelShape model,
                                                         TrainerOptions options) {
  auto trainer = std::make_unique<TrainerImpl>(std::move(model), std::move(options));
  STRATA_RETURN_IF_ERROR(trainer->Init());
  return trainer;
}

}  // namespace strata
