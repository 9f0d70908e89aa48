#include "tiers/checksum_table.h"

#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"

namespace strata {

ChecksumTable::ChecksumTable(int64_t chunk_count_max)
    : chunk_count_max_(chunk_count_max),
      entries_(std::bit_ceil(static_cast<size_t>(2 * chunk_count_max))) {
  STRATA_CHECK(chunk_count_max > 0);
}

size_t ChecksumTable::SlotOf(int64_t offset) const {
  const size_t mask = entries_.size() - 1;
  const uint64_t mixed = static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15u;
  size_t slot = static_cast<size_t>(mixed >> 32) & mask;
  while (entries_[slot].offset != -1 && entries_[slot].offset != offset) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

const ChecksumTable::Entry* ChecksumTable::Find(int64_t offset) const {
  const Entry& entry = entries_[SlotOf(offset)];
  return entry.offset == offset ? &entry : nullptr;
}

ChecksumTable::Entry* ChecksumTable::BeginWrite(int64_t offset, int64_t size_bytes) {
  Entry& entry = entries_[SlotOf(offset)];
  if (entry.offset == -1) {
    if (chunk_count_ == chunk_count_max_) return nullptr;
    ++chunk_count_;
    entry.offset = offset;
  }
  entry.size_bytes = size_bytes;
  entry.state = State::kBeingWritten;
  ++entry.generation;
  return &entry;
}

uint32_t ChunkChecksum(int64_t offset, uint32_t generation,
                       std::span<const std::byte> bytes) {
  std::array<std::byte, sizeof(offset) + sizeof(generation)> header;
  std::memcpy(header.data(), &offset, sizeof(offset));
  std::memcpy(header.data() + sizeof(offset), &generation, sizeof(generation));
  return Crc32c(Crc32c(0, header), bytes);
}

}  // namespace strata
