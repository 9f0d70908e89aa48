#include "tests/support/stored_values.h"

#include <algorithm>
#include <cstddef>

#include "model/stored_floats.h"
#include "runtime/base/status.h"

namespace strata {

std::vector<StoredValues> ReadStoredValues(const std::string& path) {
  const auto file = SafetensorsFile::Open(path);
  STRATA_CHECK(file.ok());
  std::vector<StoredValues> tensors;
  for (const TensorInfo& info : (*file)->tensors()) {
    StoredValues tensor{{info.name, info.type, info.shape}, {}};
    tensor.values.resize(static_cast<size_t>(info.element_count()));
    STRATA_CHECK(ReadFloats(**file, info, 0, tensor.values).ok());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void WriteStoredValues(const std::string& path,
                       const std::vector<StoredValues>& tensors) {
  std::vector<StoredTensorSpec> specs;
  for (const StoredValues& tensor : tensors) specs.push_back(tensor.spec);
  const auto writer = SafetensorsWriter::Create(path, specs, {{"format", "pt"}});
  STRATA_CHECK(writer.ok());
  for (const StoredValues& tensor : tensors) {
    std::vector<std::byte> bytes(tensor.values.size() *
                                 static_cast<size_t>(SizeOf(tensor.spec.type)));
    StoredFromFloats(tensor.spec.type, tensor.values, bytes);
    STRATA_CHECK((*writer)->Append(tensor.spec.name, bytes).ok());
  }
  STRATA_CHECK((*writer)->Finish().ok());
}

StoredValues& TensorNamed(std::vector<StoredValues>& tensors, const std::string& name) {
  const auto found = std::find_if(
      tensors.begin(), tensors.end(),
      [&](const StoredValues& tensor) { return tensor.spec.name == name; });
  STRATA_CHECK(found != tensors.end());
  return *found;
}

}  // namespace strata
