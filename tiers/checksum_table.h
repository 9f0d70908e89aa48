/// A ChecksumTable knows what rests where in one swap file: for every chunk that was
/// written its size, generation and checksum. It lives in memory, since swap files do
/// not outlive their run; so a write that the drive lost or misplaced is found as well.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata {

/// Not thread-safe. Does not allocate after it was made.
class ChecksumTable {
 public:
  enum class State : uint8_t { kNeverWritten, kBeingWritten, kWritten, kWriteFailed };

  struct Entry {
    int64_t offset = -1;  // -1: free
    int64_t size_bytes = 0;
    uint32_t generation = 0;  // of the bytes at this offset
    uint32_t checksum = 0;
    State state = State::kNeverWritten;
  };

  /// Room for chunks at `chunk_count_max` different offsets.
  explicit ChecksumTable(int64_t chunk_count_max);

  /// The entry of `offset`, or null.
  const Entry* Find(int64_t offset) const;

  /// The entry of `offset`, in a new generation and being written; null if the table is
  /// full. Stays valid.
  Entry* BeginWrite(int64_t offset, int64_t size_bytes);

 private:
  size_t SlotOf(int64_t offset) const;

  const int64_t chunk_count_max_;
  int64_t chunk_count_ = 0;
  std::vector<Entry> entries_;  // open addressing, a power of two
};

/// CRC32C of the bytes, their offset and their generation.
uint32_t ChunkChecksum(int64_t offset, uint32_t generation,
                       std::span<const std::byte> bytes);

}  // namespace strata
