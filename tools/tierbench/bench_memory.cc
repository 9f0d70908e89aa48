#include "tools/tierbench/bench_memory.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/file_descriptor.h"

namespace strata {
namespace {

constexpr int64_t kHugePageBytes = 2 * kMiB;

/// An anonymous mapping whose start is aligned to a huge page.
absl::StatusOr<std::byte*> MapAnonymous(int64_t size_bytes) {
  const auto mapped = static_cast<size_t>(size_bytes + kHugePageBytes);
  void* const map = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return IoError(errno, "mmap");
  const auto address = static_cast<int64_t>(reinterpret_cast<uintptr_t>(map));
  const int64_t front = AlignUp(address, kHugePageBytes) - address;
  auto* const data = static_cast<std::byte*>(map) + front;
  if (front > 0) munmap(map, static_cast<size_t>(front));
  if (front < kHugePageBytes) {
    munmap(data + size_bytes, static_cast<size_t>(kHugePageBytes - front));
  }
  return data;
}

absl::StatusOr<std::byte*> MapShared(int64_t size_bytes) {
  const FileDescriptor file(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.is_open()) return IoError(errno, "/dev/shm");
  // Now, so that a full /dev/shm is an error and not a SIGBUS later.
  while (fallocate(file.get(), 0, 0, size_bytes) != 0) {
    if (errno != EINTR) return IoError(errno, "/dev/shm");
  }
  void* const map = mmap(nullptr, static_cast<size_t>(size_bytes),
                         PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (map == MAP_FAILED) return IoError(errno, "/dev/shm: mmap");
  return static_cast<std::byte*>(map);
}

}  // namespace

const char* Name(Pages pages) {
  return pages == Pages::kHuge ? "huge" : pages == Pages::kSmall ? "4k" : "shm";
}

absl::StatusOr<std::unique_ptr<BenchMemory>> BenchMemory::Create(Pages pages,
                                                                 int64_t size_bytes) {
  STRATA_CHECK(size_bytes > 0);
  size_bytes = AlignUp(size_bytes, kHugePageBytes);
  absl::StatusOr<std::byte*> data =
      pages == Pages::kShared ? MapShared(size_bytes) : MapAnonymous(size_bytes);
  if (!data.ok()) {
    return Annotate(data.status(),
                    absl::StrCat("cannot get ", FormatSize(size_bytes),
                                 " of memory on ", Name(pages), " pages"));
  }
  const auto size = static_cast<size_t>(size_bytes);
  auto memory = std::unique_ptr<BenchMemory>(new BenchMemory({*data, size}));
  if (pages != Pages::kShared) {
    madvise(*data, size, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  madvise(*data, size, MADV_DONTFORK);
  for (int64_t at = 0; at < size_bytes; at += 4 * kKiB) (*data)[at] = std::byte{0};
  return memory;
}

BenchMemory::~BenchMemory() { munmap(bytes_.data(), bytes_.size()); }

double BenchMemory::huge_page_share() const {
  const auto begin = reinterpret_cast<uintptr_t>(bytes_.data());
  const uintptr_t end = begin + bytes_.size();
  std::ifstream maps("/proc/self/smaps");
  int64_t huge_kib = 0;
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, last = 0;
    int64_t kib = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " ", &first, &last) == 2) {
      is_inside = first < end && last > begin;
    } else if (is_inside &&
               (std::sscanf(line.c_str(), "AnonHugePages: %" SCNd64, &kib) == 1 ||
                std::sscanf(line.c_str(), "ShmemPmdMapped: %" SCNd64, &kib) == 1)) {
      huge_kib += kib;
    }
  }
  const double share =
      static_cast<double>(huge_kib * kKiB) / static_cast<double>(bytes_.size());
  return share > 1 ? 1 : share;  // a neighbour in the same mapping
}

void FillRandom(std::span<std::byte> bytes, uint64_t seed) {
  uint64_t state = (seed * 0x9e3779b97f4a7c15u) | 1;  // never 0
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(bytes.data() + i, &state, 8);
  }
}

}  // namespace strata
