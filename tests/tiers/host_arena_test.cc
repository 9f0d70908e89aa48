#include "tiers/host_arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace strata {
namespace {

int64_t ResidentPages(const HostArena& arena) {
  std::vector<unsigned char> states(static_cast<size_t>(arena.size_bytes() / 4096));
  EXPECT_EQ(mincore(arena.data(), arena.span().size(), states.data()), 0);
  return std::count_if(states.begin(), states.end(),
                       [](int state) { return state & 1; });
}

bool KernelGivesHugePagesOnAdvice() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  std::getline(file, line);
  return line.find("[madvise]") != std::string::npos ||
         line.find("[always]") != std::string::npos;
}

TEST(HostArena, IsAlignedZeroWritableAndOfTheExactSize) {
  for (const int64_t size_bytes :
       std::vector<int64_t>{1, 4096 * 3, 2 * kMiB, 5 * kMiB + 4096}) {
    const auto arena = HostArena::Create(size_bytes);
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_EQ((*arena)->size_bytes(), AlignUp(size_bytes, 4096));
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*arena)->data()) % HostArena::kAlignment,
              0u);
    for (std::byte& byte : (*arena)->span()) {
      ASSERT_EQ(byte, std::byte{0});
      byte = std::byte{1};
    }
  }
}

TEST(HostArena, EveryPageIsThereBeforeItIsTouched) {
  const auto arena = HostArena::Create(150 * kMiB + 4096);
  ASSERT_TRUE(arena.ok());
  EXPECT_EQ(ResidentPages(**arena), (*arena)->size_bytes() / 4096);
}

TEST(HostArena, ReportsTheShareOfHugePages) {
  const auto arena = HostArena::Create(64 * kMiB);
  ASSERT_TRUE(arena.ok());
  const double share = (*arena)->huge_page_share();
  EXPECT_LE(share, 1.0);
  if (KernelGivesHugePagesOnAdvice()) {
    EXPECT_GT(share, 0.0);
  } else {
    EXPECT_EQ(share, 0.0);
  }
}

TEST(HostArena, RefusesWhatTheSystemDoesNotHaveWithTheNumbers) {
  const absl::Status status = HostArena::Create(int64_t{1} << 50).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("1125899906842624 bytes"), std::string::npos)
      << status;
}

TEST(HostArena, IsNotPartOfAForksChild) {
  const auto arena = HostArena::Create(2 * kMiB);
  ASSERT_TRUE(arena.ok());
  const pid_t child = fork();
  if (child == 0) {
    unsigned char state = 0;
    _exit(mincore((*arena)->data(), 4096, &state) == 0 ? 1 : 0);  // ENOMEM: not mapped
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace strata
