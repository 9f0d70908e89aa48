/// Law 6 for the store: after Create it allocates nothing and opens nothing. This
/// binary counts every operator new, of all threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <new>

#include "tests/support/backends.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tests/support/wait.h"
#include "tiers/nvme_store.h"

namespace {
std::atomic<int64_t> allocation_count = 0;

void* Counted(std::size_t size, std::size_t alignment) {
  ++allocation_count;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size) != 0) std::abort();
  return memory;
}
}  // namespace

void* operator new(std::size_t size) {
  return Counted(size, alignof(std::max_align_t));
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace strata {
namespace {

int64_t EntryCount(const char* path) {
  const std::filesystem::directory_iterator entries(path);
  return std::distance(begin(entries), end(entries));
}

class NvmeStoreSteadyStateTest : public testing::TestWithParam<IoBackend> {};

TEST_P(NvmeStoreSteadyStateTest, AllocatesAndOpensNothingFromTheFirstRequestOn) {
  constexpr int64_t kExtent = 200 * kKiB;
  constexpr int kExtents = 20;
  TempDirectory directory;
  PageBuffer memory(kExtents * kExtent, 1);
  auto store = NvmeStore::Create({
      .directories = {{directory / "a"}, {directory / "b"}},
      .capacity_bytes = kExtents * kExtent,
      .extent_count_max = kExtents,
      .chunk_bytes = 64 * kKiB,
      .window_bytes = 256 * kKiB,
      .memory = {memory.span()},
      .io_backend = GetParam(),
  });
  ASSERT_TRUE(store.ok()) << store.status();
  const int64_t descriptors = EntryCount("/proc/self/fd");
  const int64_t before = allocation_count;
  for (int round = 0; round < 5; ++round) {
    Ticket ticket = 0;
    for (int i = 0; i < kExtents; ++i) {
      ticket =
          (*store)->Write(i * kExtent, memory.data() + i * kExtent, kExtent, "extent");
    }
    ASSERT_TRUE(WaitForWrites(**store, ticket).ok());
    for (int i = 0; i < kExtents; ++i) {
      ticket =
          (*store)->Read(i * kExtent, memory.data() + i * kExtent, kExtent, "extent");
    }
    ASSERT_TRUE(WaitForReads(**store, ticket).ok());
    (*store)->Drain();
  }
  EXPECT_EQ(allocation_count - before, 0);
  EXPECT_EQ(EntryCount("/proc/self/fd"), descriptors);
}

INSTANTIATE_TEST_SUITE_P(, NvmeStoreSteadyStateTest,
                         testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata
