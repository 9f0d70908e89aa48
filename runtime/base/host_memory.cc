#include "runtime/base/host_memory.h"

#include <absl/strings/str_cat.h>
#include <sys/mman.h>

#include <cerrno>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {
namespace {

constexpr int64_t kPageBytes = 4 * kKiB;
constexpr int64_t kHugePageBytes = 2 * kMiB;

// Where the kernel has no MADV_POPULATE_WRITE (before 5.14): touches every page.
void TouchPages(std::byte* data, int64_t size_bytes) {
  for (int64_t offset = 0; offset < size_bytes; offset += kPageBytes) {
    *const_cast<volatile std::byte*>(data + offset) = std::byte{0};
  }
}

int Populate(std::byte* data, int64_t size_bytes) {
#ifdef MADV_POPULATE_WRITE
  const int populate = MADV_POPULATE_WRITE;
#else
  const int populate = 23;  // the kernel's number; older C libraries do not name it
#endif
  while (madvise(data, static_cast<size_t>(size_bytes), populate) != 0) {
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno != EINVAL) return errno;
    TouchPages(data, size_bytes);
    break;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::byte*> MapHostMemory(int64_t size_bytes) {
  STRATA_CHECK(size_bytes > 0);
  const int64_t mapped_bytes = AlignUp(size_bytes, kPageBytes);
  // mmap aligns to small pages: for huge ones map more and cut the ends off.
  const int64_t slack_bytes = size_bytes >= kHugePageBytes ? kHugePageBytes : 0;
  void* const map = mmap(nullptr, static_cast<size_t>(mapped_bytes + slack_bytes),
                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) {
    return IoError(errno,
                   absl::StrCat("map ", FormatSize(size_bytes), " of host memory"));
  }
  std::byte* data = static_cast<std::byte*>(map);
  if (slack_bytes > 0) {
    const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(map));
    const int64_t front_bytes = AlignUp(address, kHugePageBytes) - address;
    const int64_t back_bytes = slack_bytes - front_bytes;
    data += front_bytes;
    if (front_bytes > 0) munmap(map, static_cast<size_t>(front_bytes));
    if (back_bytes > 0) munmap(data + mapped_bytes, static_cast<size_t>(back_bytes));
    // Refused where the kernel has no huge pages; small ones do, only slower.
    madvise(data, static_cast<size_t>(mapped_bytes), MADV_HUGEPAGE);
  }
  if (const int error = Populate(data, mapped_bytes); error != 0) {
    munmap(data, static_cast<size_t>(mapped_bytes));
    return IoError(
        error, absl::StrCat("populate ", FormatSize(size_bytes), " of host memory"));
  }
  return data;
}

void UnmapHostMemory(std::span<std::byte> memory) noexcept {
  const int64_t size_bytes = static_cast<int64_t>(memory.size());
  munmap(memory.data(), static_cast<size_t>(AlignUp(size_bytes, kPageBytes)));
}

}  // namespace strata
