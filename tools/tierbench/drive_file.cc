#include "tools/tierbench/drive_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/storage/store.h"

namespace strata {

absl::StatusOr<std::unique_ptr<DriveFile>> DriveFile::Create(
    const std::string& directory, int64_t size_bytes, DirectIo direct, Pages pages,
    int64_t window_bytes) {
  auto drive = std::unique_ptr<DriveFile>(new DriveFile);
  drive->directory_ = directory;
  STRATA_ASSIGN_OR_RETURN(drive->swap_, SwapDirectory::Create(directory));
  STRATA_ASSIGN_OR_RETURN(drive->file_,
                          CreateSwapFile(drive->swap_->path(), size_bytes));
  if (direct == DirectIo::kOff) {
    SwapFile& file = drive->file_;
    file.descriptor = FileDescriptor(open(file.path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file.descriptor.is_open()) {
      return IoError(errno, absl::StrCat("cannot open '", file.path, "'"));
    }
    file.is_direct = false;
  }
  drive->size_bytes_ = size_bytes;
  STRATA_ASSIGN_OR_RETURN(drive->memory_, BenchMemory::Create(pages, window_bytes));
  FillRandom(drive->memory_->span(), static_cast<uint64_t>(getpid()));
  drive->checksums_.resize(static_cast<size_t>(size_bytes / Store::kAlignment));
  return drive;
}

absl::Status DriveFile::UseMemory(Pages pages) {
  const auto size_bytes = static_cast<int64_t>(memory_->span().size());
  STRATA_ASSIGN_OR_RETURN(memory_, BenchMemory::Create(pages, size_bytes));
  FillRandom(memory_->span(), static_cast<uint64_t>(getpid()));
  return absl::OkStatus();
}

void DriveFile::DropFromCache() const {
  fdatasync(descriptor());
  posix_fadvise(descriptor(), 0, 0, POSIX_FADV_DONTNEED);
}

double DriveFile::CachedShare() const {
  const auto size = static_cast<size_t>(size_bytes_);
  void* const map = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor(), 0);
  if (map == MAP_FAILED) return -1;
  std::vector<unsigned char> present(size / static_cast<size_t>(Store::kAlignment));
  const bool is_known = mincore(map, size, present.data()) == 0;
  munmap(map, size);
  if (!is_known || present.empty()) return -1;
  const auto count = std::count_if(present.begin(), present.end(),
                                   [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(present.size());
}

int64_t DriveFile::StoredBytes() const {
  struct stat info {};
  if (fstat(descriptor(), &info) != 0) return 0;
  return static_cast<int64_t>(info.st_blocks) * 512;
}

}  // namespace strata
