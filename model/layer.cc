#include "model/layer.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kTensorAlignment = 128;  // elements: 256 bytes in BF16

int64_t ElementCount(const TensorSpec& tensor) {
  int64_t count = 1;
  for (const int64_t extent : tensor.shape) count *= extent;
  return count;
}

}  // namespace

const TensorPlacement& LayerLayout::Find(absl::string_view name) const {
  const TensorPlacement* const found = FindOrNull(name);
  STRATA_CHECK(found != nullptr);
  return *found;
}

const TensorPlacement* LayerLayout::FindOrNull(absl::string_view name) const {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(),
      [name](const TensorPlacement& tensor) { return tensor.spec.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

LayerLayout MakeLayout(const Layer& layer) {
  std::vector<TensorSpec> specs = layer.tensors();
  std::stable_partition(specs.begin(), specs.end(),
                        [](const TensorSpec& tensor) { return tensor.trainable; });
  LayerLayout layout;
  int64_t end = 0;
  bool in_trainable_part = true;
  for (TensorSpec& spec : specs) {
    if (in_trainable_part && !spec.trainable) {  // begins where a slice may end
      in_trainable_part = false;
      layout.trainable_elements = end = AlignUp(end, kTileElements);
    }
    end = AlignUp(end, kTensorAlignment);
    const int64_t count = ElementCount(spec);
    layout.tensors.push_back({std::move(spec), end, count});
    layout.parameter_count += count;
    end += count;
  }
  layout.total_elements = AlignUp(end, kTileElements);
  if (in_trainable_part) layout.trainable_elements = layout.total_elements;
  return layout;
}

}  // namespace strata
