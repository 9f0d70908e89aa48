/// AdamW as PyTorch defines it; the scalars of a step are computed once, in double.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace strata {

struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  bool decoupled_decay = true;  // AdamW; false: decay is added to the gradient (Adam)
  double max_grad_norm = 0;     // 0: no clipping
  /// Without clipping: a step whose gradient is not finite is skipped, as with clipping,
  /// at the price that updates wait for the end of the backward. False: it ends the run.
  bool skip_nonfinite = false;
};

/// Whether a step's updates need the norm of its whole gradient.
bool UpdatesWait(const OptimizerSettings& settings);

/// Scalars of step `step` (from 1) at `learning_rate`; `gradient_scale` is the clip
/// factor.
AdamWScalars ScalarsOf(const OptimizerSettings& settings, double learning_rate,
                       int64_t step, double gradient_scale);

/// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 without
/// clipping.
double ClipFactor(const OptimizerSettings& settings, double norm);

}  // namespace strata
