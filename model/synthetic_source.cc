#include "model/synthetic_source.h"

#include <absl/strings/str_cat.h>

#include "model/permutation.h"

namespace strata {

absl::Status SyntheticSource::Read(int64_t index, Sample& sample) const {
  sample.tokens.resize(static_cast<size_t>(options_.length));
  const uint64_t stream = MixBits(options_.seed) ^ static_cast<uint64_t>(index);
  uint64_t state = MixBits(stream);
  for (int32_t& token : sample.tokens) {
    state += 0x9E3779B97F4A7C15;
    token =
        static_cast<int32_t>(MixBits(state) % static_cast<uint64_t>(options_.vocab));
  }
  sample.labels = sample.tokens;
  sample.document_ends.assign(1, options_.length);
  return absl::OkStatus();
}

std::string SyntheticSource::Describe(int64_t index) const {
  return absl::StrCat("synthetic row ", index);
}

}  // namespace strata
