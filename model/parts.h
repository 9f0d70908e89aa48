/// What rests of a tensor between steps, part by part: its weight, and for a trainable
/// tensor what the optimizer keeps of it. Checkpoints have a file for each part.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/layer.h"
#include "model/safetensors.h"

namespace strata {

struct Part {
  const char* name;  // "model" (the weight), "remainder", "moment1", "moment2"
  StoredType type;
};

/// The parts of a trainable tensor, the weight first, the others in the order in which
/// a slice's state holds them. A frozen tensor has the first one only.
std::vector<Part> PartsOf(DType dtype);

/// Elements [first, ...) of every part of `tensor`, in the order of PartsOf. The bytes
/// are to be read or to be filled, as the function that takes the visitor says.
using PartsVisitor =
    std::function<absl::Status(const TensorSpec& tensor, int64_t first,
                               std::span<const std::span<std::byte>> parts)>;

}  // namespace strata
