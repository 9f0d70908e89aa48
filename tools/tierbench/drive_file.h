/// The file that is measured in one directory: in a locked directory of our own that
/// nothing of remains, preallocated, full of bytes that no drive can compress.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tiers/swap_directory.h"
#include "tiers/swap_file.h"
#include "tools/tierbench/bench_memory.h"

namespace strata {

enum class DirectIo : uint8_t { kOn, kOff };

class DriveFile {
 public:
  /// Makes the file, without data, and memory of `window_bytes` to measure with.
  static absl::StatusOr<std::unique_ptr<DriveFile>> Create(const std::string& directory,
                                                           int64_t size_bytes,
                                                           DirectIo direct, Pages pages,
                                                           int64_t window_bytes);

  int descriptor() const { return file_.descriptor.get(); }
  const std::string& path() const { return file_.path; }
  const std::string& directory() const { return directory_; }
  bool is_direct() const { return file_.is_direct; }

  /// What holds data: [0, data_bytes()).
  int64_t data_bytes() const { return data_bytes_; }
  void set_data_bytes(int64_t size_bytes) { data_bytes_ = size_bytes; }
  std::span<std::byte> memory() const { return memory_->span(); }
  double huge_page_share() const { return memory_->huge_page_share(); }
  /// Measures with other memory from now on. REQUIRES: nothing is in flight.
  absl::Status UseMemory(Pages pages);

  /// CRC32C of each chunk that was written, by the page that it begins at.
  std::vector<uint32_t>& checksums() { return checksums_; }

  /// Writes back and drops what the page cache has of it.
  void DropFromCache() const;
  /// Share of the file that is in the page cache, 0 to 1; -1 if the kernel won't say.
  double CachedShare() const;
  /// Bytes that the filesystem has really stored, less than the size where it
  /// compresses or keeps holes.
  int64_t StoredBytes() const;

 private:
  DriveFile() = default;

  std::unique_ptr<SwapDirectory> swap_;  // goes last
  SwapFile file_;
  std::string directory_;
  int64_t size_bytes_ = 0;
  int64_t data_bytes_ = 0;
  std::unique_ptr<BenchMemory> memory_;
  std::vector<uint32_t> checksums_;
};

}  // namespace strata
