/// Computes the operations of a plan with a model's layers and the optimizer: the
/// runtime's OperationRunner for models.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/layer.h"
#include "model/model_trace.h"
#include "model/optimizer.h"
#include "runtime/plan/executor.h"

namespace strata {

/// Numbers of one run of a plan that its operations need, fixed before it starts.
struct RunScalars {
  AdamWScalars pending;  // of the step before, with its clip factor
  AdamWScalars current;  // of this step, as if it did not clip
  float loss_scale = 0;  // 1 / trained tokens of the step
  float* logits =
      nullptr;  // evaluation: where the head writes them, [micro-batch, tokens, vocab]
  int64_t logits_stride = 0;  // elements of one micro-batch's logits
  /// Not null: the tokens whose logits are wanted, and no loss.
  const int32_t* logit_rows = nullptr;
  int64_t logit_row_count = 0;
  std::optional<MicroBatchShape> shape;  // if smaller than planned
};

class StepRunner final : public OperationRunner {
 public:
  /// `model`, kernels and layouts (one for each layer) outlive the runner.
  StepRunner(const ModelShape& model, const std::vector<LayerLayout>& layouts,
             const StepTrace& trace, Kernels& device_kernels, Kernels& cpu_kernels);

  /// For the Executor::Run call with ordinal `run`; two neighbours can be in use at
  /// once.
  void SetScalars(uint64_t run, const RunScalars& scalars) {
    scalars_[run % scalars_.size()] = scalars;
  }
  /// Slices, once the plan is known. REQUIRES: before the first run.
  void SetLayout(const Layout* layout) { layout_ = layout; }

  absl::Status Run(const OpCall& call, Stream& stream) override;

 private:
  /// Elements [begin, end) of a layer that decay, or do not, alike.
  struct DecayRange {
    int64_t begin, end;
    bool decays;
  };
  static AdamWScalars ScalarsFor(const DecayRange& range, AdamWScalars scalars);

  absl::Status RunLayer(const OpCall& call, Stream& stream);
  absl::Status RunOptimizer(const OpCall& call, Stream& stream);
  absl::Status RunZero(const OpCall& call, Stream& stream);
  absl::Status RunReduce(const OpCall& call, Stream& stream);

  const ModelShape& model_;
  const StepTrace& trace_;
  Kernels& device_kernels_;
  Kernels& cpu_kernels_;
  const Layout* layout_ = nullptr;
  std::vector<int64_t> constant_offsets_;
  int64_t matmul_bytes_;                        // in front of each workspace
  std::vector<std::vector<DecayRange>> decay_;  // by layer
  std::array<RunScalars, 4> scalars_;
};

}  // namespace strata
