#include "model/stored_floats.h"

#include <cstring>
#include <vector>

#include "runtime/base/float16.h"
#include "runtime/base/status.h"

namespace strata {

void FloatsFromStored(StoredType type, std::span<const std::byte> bytes,
                      std::span<float> floats) {
  STRATA_CHECK(IsFloat(type));
  STRATA_CHECK(bytes.size() == floats.size() * static_cast<size_t>(SizeOf(type)));
  if (floats.empty()) return;
  if (type == StoredType::kF32) {
    std::memcpy(floats.data(), bytes.data(), bytes.size());
    return;
  }
  for (size_t i = 0; i < floats.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    floats[i] = type == StoredType::kBF16 ? FloatFromBf16(bits) : FloatFromF16(bits);
  }
}

void StoredFromFloats(StoredType type, std::span<const float> floats,
                      std::span<std::byte> bytes) {
  STRATA_CHECK(IsFloat(type));
  STRATA_CHECK(bytes.size() == floats.size() * static_cast<size_t>(SizeOf(type)));
  if (floats.empty()) return;
  if (type == StoredType::kF32) {
    std::memcpy(bytes.data(), floats.data(), bytes.size());
    return;
  }
  for (size_t i = 0; i < floats.size(); ++i) {
    const uint16_t bits =
        type == StoredType::kBF16 ? Bf16FromFloat(floats[i]) : F16FromFloat(floats[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, 2);
  }
}

absl::Status ReadFloats(const SafetensorsFile& file, const TensorInfo& tensor,
                        int64_t start, std::span<float> out) {
  const int64_t element_bytes = SizeOf(tensor.type);
  if (tensor.type == StoredType::kF32) {
    return file.Read(tensor, start * element_bytes, std::as_writable_bytes(out));
  }
  std::vector<std::byte> scratch(out.size() * static_cast<size_t>(element_bytes));
  STRATA_RETURN_IF_ERROR(file.Read(tensor, start * element_bytes, scratch));
  FloatsFromStored(tensor.type, scratch, out);
  return absl::OkStatus();
}

}  // namespace strata
