#include "model/sample.h"

#include <algorithm>

#include "kernels/ops.h"

namespace strata {

std::vector<int32_t> Targets(const Sample& sample) {
  std::vector<int32_t> targets(sample.tokens.size(), kIgnoredLabel);
  if (!targets.empty()) {
    std::copy(sample.labels.begin() + 1, sample.labels.end(), targets.begin());
  }
  for (int64_t end : sample.document_ends) targets[end - 1] = kIgnoredLabel;
  return targets;
}

int64_t CountTargets(const Sample& sample) {
  const std::vector<int32_t> targets = Targets(sample);
  return std::count_if(targets.begin(), targets.end(),
                       [](int32_t target) { return target != kIgnoredLabel; });
}

void Truncate(Sample& sample, int64_t size) {
  if (sample.size() <= size) return;
  sample.tokens.resize(static_cast<size_t>(size));
  sample.labels.resize(static_cast<size_t>(size));
  std::erase_if(sample.document_ends, [size](int64_t end) { return end >= size; });
  if (size > 0) sample.document_ends.push_back(size);
}

}  // namespace strata
