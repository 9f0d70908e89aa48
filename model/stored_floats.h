/// Floats as checkpoints hold them (F32, BF16 or F16, each tensor its own type).
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/safetensors.h"

namespace strata {

/// Converts element by element, exactly. `bytes` need not be aligned.
/// REQUIRES: `type` is a float type; `bytes` holds floats.size() elements.
void FloatsFromStored(StoredType type, std::span<const std::byte> bytes,
                      std::span<float> floats);

/// Converts element by element, rounding to nearest, ties to even. Same requirements.
void StoredFromFloats(StoredType type, std::span<const float> floats,
                      std::span<std::byte> bytes);

/// Fills `out` from element `start` of the tensor on. Blocks. Needs a scratch of the
/// stored bytes. REQUIRES: a float tensor, the range lies within it.
absl::Status ReadFloats(const SafetensorsFile& file, const TensorInfo& tensor,
                        int64_t start, std::span<float> out);

}  // namespace strata
