#include "model/optimizer.h"

#include <algorithm>
#include <cmath>

namespace strata {

bool UpdatesWait(const OptimizerSettings& settings) {
  return settings.max_grad_norm > 0 || settings.skip_nonfinite;
}

AdamWScalars ScalarsOf(const OptimizerSettings& settings, double learning_rate,
                       int64_t step, double gradient_scale) {
  const double t = static_cast<double>(step);
  const double correction1 = 1 - std::pow(settings.beta1, t);
  const double correction2 = 1 - std::pow(settings.beta2, t);
  const double decay = settings.weight_decay;
  return {
      .gradient_scale = static_cast<float>(gradient_scale),
      .beta1 = static_cast<float>(settings.beta1),
      .one_minus_beta1 = static_cast<float>(1 - settings.beta1),
      .beta2 = static_cast<float>(settings.beta2),
      .one_minus_beta2 = static_cast<float>(1 - settings.beta2),
      .step_size = static_cast<float>(learning_rate / correction1),
      .sqrt_correction2 = static_cast<float>(std::sqrt(correction2)),
      .epsilon = static_cast<float>(settings.epsilon),
      .decay_factor = settings.decoupled_decay
                          ? static_cast<float>(1 - learning_rate * decay)
                          : 1.0f,
      .l2 = settings.decoupled_decay ? 0.0f : static_cast<float>(decay),
  };
}

double ClipFactor(const OptimizerSettings& settings, double norm) {
  if (settings.max_grad_norm <= 0) return 1;
  return std::min(1.0, settings.max_grad_norm / (norm + 1e-6));
}

}  // namespace strata
