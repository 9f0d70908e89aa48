#include "model/inputs.h"

#include <algorithm>
#include <cstring>

#include "runtime/base/status.h"

namespace strata {

void WriteInputs(const MicroBatch& batch, int64_t tokens, std::byte* target) {
  for (const auto& values :
       {batch.tokens, batch.targets, batch.positions, batch.documents}) {
    STRATA_CHECK(static_cast<int64_t>(values.size()) == tokens);
    std::memcpy(target, values.data(), values.size_bytes());
    target += values.size_bytes();
  }
}

void WriteUntrainedInputs(int64_t tokens, std::byte* target) {
  auto* values = reinterpret_cast<int32_t*>(target);
  std::fill(values, values + 4 * tokens, 0);
  std::fill(values + tokens, values + 2 * tokens, kIgnoredLabel);
}

}  // namespace strata
