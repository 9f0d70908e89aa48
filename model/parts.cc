#include "model/parts.h"

namespace strata {

std::vector<Part> PartsOf(DType dtype) {
  std::vector<Part> parts = {{"model", StoredTypeOf(dtype)}};
  if (dtype == DType::kBF16) parts.push_back({"remainder", StoredType::kI16});
  parts.push_back({"moment1", StoredType::kF32});
  parts.push_back({"moment2", StoredType::kF32});
  return parts;
}

}  // namespace strata
