#include "runtime/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/page_buffer.h"

namespace strata {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Crc32c, EqualsThePublishedValues) {  // RFC 3720, appendix B.4, and the check value
  std::string ascending(32, '\0');
  for (int i = 0; i < 32; ++i) ascending[i] = static_cast<char>(i);
  for (const auto crc : {Crc32c, Crc32cPortable}) {
    EXPECT_EQ(crc(0, Bytes("123456789")), 0xe3069283u);
    EXPECT_EQ(crc(0, Bytes(std::string(32, '\0'))), 0x8a9136aau);
    EXPECT_EQ(crc(0, Bytes(std::string(32, '\xff'))), 0x62a8ab43u);
    EXPECT_EQ(crc(0, Bytes(ascending)), 0x46dd794eu);
    EXPECT_EQ(crc(0, {}), 0u);
  }
}

TEST(Crc32c, HardwareEqualsPortableAtEverySizeAndAlignment) {
  PageBuffer buffer(40 * 4096, 3);
  const std::span<const std::byte> all = buffer.span();
  for (size_t size :
       {1, 7, 8, 9, 4095, 4096, 12287, 12288, 12289, 24576, 50000, 131072}) {
    for (size_t begin : {0, 1, 3, 8}) {
      const auto bytes = all.subspan(begin, size);
      EXPECT_EQ(Crc32c(size, bytes), Crc32cPortable(size, bytes))
          << size << "+" << begin;
    }
  }
}

TEST(Crc32c, PiecesChain) {
  PageBuffer buffer(16 * 4096, 4);
  const std::span<const std::byte> all = buffer.span();
  const uint32_t whole = Crc32c(0, all);
  for (size_t cut : {1, 4096, 13000, 65535}) {
    EXPECT_EQ(Crc32c(Crc32c(0, all.first(cut)), all.subspan(cut)), whole);
  }
}

}  // namespace
}  // namespace strata
