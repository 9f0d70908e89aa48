#include "tools/tierbench/phase.h"

#include <algorithm>
#include <utility>

namespace strata {

void SetSamples(Phase& phase, std::vector<double> bytes_per_second) {
  phase.samples = std::move(bytes_per_second);
  if (phase.samples.empty()) return;
  const auto [min, max] =
      std::minmax_element(phase.samples.begin(), phase.samples.end());
  phase.rate = {.median = Median(phase.samples),
                .min = *min,
                .max = *max,
                .worst_1s = phase.rate.worst_1s > 0 ? phase.rate.worst_1s : *min};
  phase.variation = CoefficientOfVariation(phase.samples);
}

}  // namespace strata
