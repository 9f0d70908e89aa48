#include "tiers/host_arena.h"

#include <absl/strings/str_cat.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/signals.h"

namespace strata {
namespace {

constexpr int64_t kPageBytes = 4096;
/// What one thread faults in at a time; a multiple of the huge page.
constexpr int64_t kPieceBytes = 64 * kMiB;
constexpr int kThreadCountMax = 16;
static_assert(kPieceBytes % HostArena::kAlignment == 0);

/// Makes every page present. 0 or an errno.
int PopulatePiece(std::byte* begin, int64_t size_bytes) {
  while (madvise(begin, static_cast<size_t>(size_bytes), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno != EINVAL) return errno;
    // Linux before 5.14 does not know the advice.
    for (int64_t at = 0; at < size_bytes; at += kPageBytes) {
      *static_cast<volatile std::byte*>(begin + at) = std::byte{0};
    }
    break;
  }
  return 0;
}

/// The first error of any thread. Zeroing pages takes most of the time, so more threads
/// are faster.
int Populate(std::byte* begin, int64_t size_bytes) {
  std::atomic<int64_t> next = 0;
  std::atomic<int> error_number = 0;
  const auto work = [&] {
    while (error_number.load() == 0) {
      const int64_t at = next.fetch_add(kPieceBytes);
      if (at >= size_bytes) return;
      const int result =
          PopulatePiece(begin + at, std::min(kPieceBytes, size_bytes - at));
      if (result != 0) error_number.store(result);
    }
  };
  const int64_t thread_count =
      std::min({CeilDiv(size_bytes, kPieceBytes), int64_t{kThreadCountMax},
                static_cast<int64_t>(std::thread::hardware_concurrency())});
  std::vector<std::thread> threads;
  for (int64_t i = 1; i < thread_count; ++i) {
    threads.emplace_back([&work] {
      BlockAllSignals();
      work();
    });
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return error_number.load();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostArena>> HostArena::Create(int64_t size_bytes) {
  STRATA_CHECK(size_bytes > 0);
  size_bytes = AlignUp(size_bytes, kPageBytes);
  const std::string context =
      absl::StrCat("host tier: cannot get ", size_bytes, " bytes (",
                   FormatSize(size_bytes), ") of memory");
  // Address space with room to align in, and a page before and after that nobody may
  // touch: an overrun traps, and the kernel does not merge the arena with a neighbour.
  const int64_t reserved_bytes = size_bytes + kAlignment + 2 * kPageBytes;
  void* reserved = mmap(nullptr, static_cast<size_t>(reserved_bytes), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return IoError(errno, context);
  auto* begin = static_cast<std::byte*>(reserved);
  const auto first =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin)) + kPageBytes;
  std::byte* data = begin + kPageBytes + (AlignUp(first, kAlignment) - first);
  auto arena = std::unique_ptr<HostArena>(
      new HostArena({begin, static_cast<size_t>(reserved_bytes)}, data, size_bytes));
  if (mprotect(data, static_cast<size_t>(size_bytes), PROT_READ | PROT_WRITE) != 0) {
    return IoError(errno, context);
  }
  // Advice: without huge pages the arena is slower, and the share tells.
  madvise(data, static_cast<size_t>(size_bytes), MADV_HUGEPAGE);
  // A fork's child must not share these pages: the drive would write to one copy and
  // the run read the other.
  madvise(data, static_cast<size_t>(size_bytes), MADV_DONTFORK);
  const int error_number = Populate(data, size_bytes);
  if (error_number != 0) return IoError(error_number, context);
  return arena;
}

HostArena::~HostArena() { munmap(reserved_.data(), reserved_.size()); }

double HostArena::huge_page_share() const {
  const auto begin = reinterpret_cast<uintptr_t>(data_);
  const uintptr_t end = begin + static_cast<uintptr_t>(size_bytes_);
  std::ifstream maps("/proc/self/smaps");
  int64_t huge_kib = 0;
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0;
    uintptr_t last = 0;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2) {
      is_inside = first >= begin && last <= end;
    } else if (is_inside &&
               std::sscanf(line.c_str(), "AnonHugePages: %" SCNd64, &kib) == 1) {
      huge_kib += kib;
    }
  }
  return static_cast<double>(huge_kib * kKiB) / static_cast<double>(size_bytes_);
}

}  // namespace strata
