/// Reads safetensors files: an 8-byte little-endian header size, a JSON header, and the
/// tensors' bytes back to back. Files come from strangers, so every byte of a header is
/// checked before anything is believed, and every refusal names the file and the
/// tensor.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace strata {

/// Element types that we read and write; a file with any other is refused.
enum class StoredType : uint8_t { kF32, kF16, kBF16, kI16, kI32, kI64 };

int64_t SizeOf(StoredType type);    // bytes
const char* Name(StoredType type);  // "F32", as in a header
StoredType StoredTypeOf(DType dtype);
bool IsFloat(StoredType type);

/// Bytes of a tensor, or nothing if they do not fit 63 bits. Extents are not negative.
std::optional<int64_t> BytesOf(StoredType type, std::span<const int64_t> shape);

struct TensorInfo {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;  // empty for a scalar
  int64_t offset_bytes = 0;    // from the start of the file
  int64_t size_bytes = 0;

  int64_t element_count() const { return size_bytes / SizeOf(type); }
};

/// "[2, 3]".
std::string FormatShape(std::span<const int64_t> shape);

/// An open file whose header was found to be sound. Holds one file descriptor and no
/// tensor data. Thread-safe: reads carry their own position.
class SafetensorsFile {
 public:
  /// InvalidArgument if the header is too large, no JSON, names a tensor twice, or if
  /// its tensors do not cover the rest of the file exactly, each with the bytes that
  /// its type and shape ask for. NotFound and other codes if the file cannot be opened
  /// or read.
  static absl::StatusOr<std::unique_ptr<SafetensorsFile>> Open(absl::string_view path);

  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::string& path() const { return path_; }
  /// In the order of their bytes.
  const std::vector<TensorInfo>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// Null if there is no tensor of that name. Points into this object.
  const TensorInfo* Find(absl::string_view name) const;

  /// Fills `out` from byte `offset_bytes` of the tensor on. Blocks.
  /// REQUIRES: the range lies within `tensor`, which is one of tensors().
  absl::Status Read(const TensorInfo& tensor, int64_t offset_bytes,
                    std::span<std::byte> out) const;

 private:
  SafetensorsFile(std::string path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor) {}
  absl::Status ReadHeader();

  std::string path_;
  int descriptor_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t> index_;  // name -> position in tensors_
  std::map<std::string, std::string> metadata_;
};

}  // namespace strata
