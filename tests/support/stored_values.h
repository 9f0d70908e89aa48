/// The tensors of a safetensors file as values that a test can change and write back.
#pragma once

#include <string>
#include <vector>

#include "model/safetensors_writer.h"

namespace strata {

struct StoredValues {
  StoredTensorSpec spec;
  std::vector<float> values;
};

/// Both end the test program if the file cannot be read or written.
std::vector<StoredValues> ReadStoredValues(const std::string& path);
void WriteStoredValues(const std::string& path,
                       const std::vector<StoredValues>& tensors);

/// The tensor of that name; there must be one.
StoredValues& TensorNamed(std::vector<StoredValues>& tensors, const std::string& name);

}  // namespace strata
