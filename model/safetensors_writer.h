/// Writes safetensors files tensor by tensor, so that a checkpoint of any size needs
/// the memory of the piece at hand only.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/safetensors.h"

namespace strata {

struct StoredTensorSpec {
  std::string name;
  StoredType type = StoredType::kF32;
  std::vector<int64_t> shape;
};

/// Writes one file, piece by piece and in bounded memory. The bytes go to a temporary
/// name beside `path`; Finish makes them durable and gives them their name, so that no
/// reader ever sees half a file. Without Finish the destructor removes the temporary
/// file. Not thread-safe.
class SafetensorsWriter {
 public:
  /// Lays the tensors out (larger elements first, so that each is aligned; otherwise in
  /// the order given), takes the room of the whole file from the filesystem, and writes
  /// the header. ResourceExhausted if there is not so much room.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      absl::string_view path, std::span<const StoredTensorSpec> specs,
      const std::map<std::string, std::string>& metadata);

  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Adds the next bytes of a tensor; tensors may come in any order and interleaved.
  /// Blocks. REQUIRES: the tensor exists and has room for them.
  absl::Status Append(absl::string_view name, std::span<const std::byte> bytes);

  /// Flushes to the drive and renames. FailedPrecondition, naming the tensor, if one is
  /// not complete.
  absl::Status Finish();

  int64_t file_size_bytes() const { return file_size_bytes_; }
  /// CRC32C of the whole file. REQUIRES: it is complete, and its pieces came in the
  /// order of the file.
  uint32_t checksum() const;

 private:
  struct Slot {
    TensorInfo info;
    int64_t written_bytes = 0;
  };
  explicit SafetensorsWriter(absl::string_view path);
  absl::Status WriteHeader(std::span<const StoredTensorSpec> specs,
                           const std::map<std::string, std::string>& metadata);
  absl::Status Reserve();
  absl::Status WriteAt(int64_t offset_bytes, std::span<const std::byte> bytes,
                       absl::string_view what);

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
  int64_t file_size_bytes_ = 0;
  uint32_t checksum_ = 0;
  int64_t checksum_end_bytes_ = 0;  // what checksum_ covers, from the file's start
  std::map<std::string, Slot> slots_;
};

}  // namespace strata
