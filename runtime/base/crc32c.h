/// CRC32C (Castagnoli), the checksum of everything that rests on a drive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace strata {

/// Extends `crc`, which is 0 for the first bytes, by `bytes`: checksums of pieces
/// chain. Uses the processor's instruction where there is one (about 12 GB/s from
/// memory).
uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes);

/// The same by tables, on every processor (about 1.5 GB/s).
uint32_t Crc32cPortable(uint32_t crc, std::span<const std::byte> bytes);

}  // namespace strata
