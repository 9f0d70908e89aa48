#include "runtime/base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace strata {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // bit-reflected

using Table = std::array<uint32_t, 256>;

/// tables[k][b]: the register after byte b and then k zero bytes, from zero.
constexpr std::array<Table, 8> MakeSliceTables() {
  std::array<Table, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    }
    tables[0][byte] = value;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kSlices = MakeSliceTables();

uint64_t LoadWord(
    const std::byte* bytes) {  // little-endian machines only, as CUDA's are
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint32_t UpdatePortable(uint32_t state, const std::byte* bytes, size_t size) {
  for (; size >= 8; size -= 8, bytes += 8) {
    const uint64_t word = LoadWord(bytes) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kSlices[7 - k][(word >> (8 * k)) & 0xff];
  }
  for (; size > 0; --size, ++bytes) {
    state = (state >> 8) ^ kSlices[0][(state ^ static_cast<uint32_t>(*bytes)) & 0xff];
  }
  return state;
}

#if defined(__x86_64__)

/// The instruction takes 3 cycles but one can start in each, so three streams of this
/// many bytes run side by side and are joined by shifting one over the next.
constexpr size_t kStreamBytes = 4096;

/// shifted[k][b]: what byte k = b of a register becomes after kStreamBytes zero bytes.
std::array<Table, 4> MakeShiftTables() {
  std::array<Table, 4> tables{};
  const std::array<std::byte, kStreamBytes> zeros{};
  std::array<uint32_t, 32> bits{};
  for (int bit = 0; bit < 32; ++bit) {
    bits[bit] = UpdatePortable(uint32_t{1} << bit, zeros.data(), zeros.size());
  }
  for (int k = 0; k < 4; ++k) {
    for (int byte = 0; byte < 256; ++byte) {
      for (int bit = 0; bit < 8; ++bit) {
        if (((byte >> bit) & 1) != 0) tables[k][byte] ^= bits[8 * k + bit];
      }
    }
  }
  return tables;
}

uint32_t ShiftOverStream(const std::array<Table, 4>& tables, uint64_t state) {
  return tables[0][state & 0xff] ^ tables[1][(state >> 8) & 0xff] ^
         tables[2][(state >> 16) & 0xff] ^ tables[3][(state >> 24) & 0xff];
}

__attribute__((target("sse4.2"))) uint32_t UpdateHardware(uint32_t state,
                                                          const std::byte* bytes,
                                                          size_t size) {
  static const std::array<Table, 4> tables = MakeShiftTables();
  uint64_t a = state;
  for (; size >= 3 * kStreamBytes;
       size -= 3 * kStreamBytes, bytes += 3 * kStreamBytes) {
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kStreamBytes; i += 8) {
      a = _mm_crc32_u64(a, LoadWord(bytes + i));
      b = _mm_crc32_u64(b, LoadWord(bytes + kStreamBytes + i));
      c = _mm_crc32_u64(c, LoadWord(bytes + 2 * kStreamBytes + i));
    }
    b ^= ShiftOverStream(tables, a);
    a = c ^ ShiftOverStream(tables, b);
  }
  for (; size >= 8; size -= 8, bytes += 8) a = _mm_crc32_u64(a, LoadWord(bytes));
  for (; size > 0; --size, ++bytes) {
    a = _mm_crc32_u8(static_cast<uint32_t>(a), static_cast<uint8_t>(*bytes));
  }
  return static_cast<uint32_t>(a);
}

using Update = uint32_t (*)(uint32_t, const std::byte*, size_t);
Update ChooseUpdate() {
  return __builtin_cpu_supports("sse4.2") ? UpdateHardware : UpdatePortable;
}

#else

using Update = uint32_t (*)(uint32_t, const std::byte*, size_t);
Update ChooseUpdate() { return UpdatePortable; }

#endif

}  // namespace

uint32_t Crc32cPortable(uint32_t crc, std::span<const std::byte> bytes) {
  return ~UpdatePortable(~crc, bytes.data(), bytes.size());
}

uint32_t Crc32c(uint32_t crc, std::span<const std::byte> bytes) {
  static const Update update = ChooseUpdate();
  return ~update(~crc, bytes.data(), bytes.size());
}

}  // namespace strata
