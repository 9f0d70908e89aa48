#include "runtime/base/host_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <vector>

#include "runtime/base/types.h"

namespace strata {
namespace {

TEST(HostMemory, IsZeroedAlignedAndResident) {
  for (const int64_t size_bytes : {int64_t{1}, int64_t{4097}, 2 * kMiB, 5 * kMiB + 1}) {
    const auto memory = MapHostMemory(size_bytes);
    ASSERT_TRUE(memory.ok()) << memory.status();
    const auto address = reinterpret_cast<uintptr_t>(*memory);
    EXPECT_EQ(address % (size_bytes < 2 * kMiB ? 4 * kKiB : 2 * kMiB), 0u);
    const int64_t pages = CeilDiv(size_bytes, 4 * kKiB);
    std::vector<unsigned char> resident(static_cast<size_t>(pages));
    ASSERT_EQ(mincore(*memory, static_cast<size_t>(size_bytes), resident.data()), 0);
    EXPECT_TRUE(std::all_of(resident.begin(), resident.end(),
                            [](unsigned char page) { return (page & 1) != 0; }));
    EXPECT_TRUE(std::all_of(*memory, *memory + size_bytes,
                            [](std::byte value) { return value == std::byte{0}; }));
    UnmapHostMemory({*memory, static_cast<size_t>(size_bytes)});
  }
}

TEST(HostMemory, RefusesWhatNoAddressSpaceHoldsWithTheSize) {
  const auto memory = MapHostMemory(int64_t{1} << 60);
  EXPECT_EQ(memory.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(memory.status().message().find("1048576.00 TiB"), absl::string_view::npos)
      << memory.status();
}

}  // namespace
}  // namespace strata
