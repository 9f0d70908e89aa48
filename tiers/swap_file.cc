#include "tiers/swap_file.h"

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <new>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/swap_directory.h"

namespace strata {
namespace {

/// For filesystems without fallocate. (glibc's posix_fallocate would write one byte of
/// each block, which allocates nothing on a filesystem that stores holes.)
int WriteZeros(int descriptor, int64_t size_bytes) {  // 0 or an errno
  constexpr int64_t kBlock = kMiB;
  struct alignas(4096) Block {
    std::byte bytes[kBlock];
  };
  const auto zeros = std::make_unique<Block>();
  for (int64_t offset = 0; offset < size_bytes;) {
    const int64_t wanted = std::min(kBlock, size_bytes - offset);
    const ssize_t written =
        pwrite(descriptor, zeros.get(), static_cast<size_t>(wanted), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    // A short write at a full disk is followed by the reason.
    offset += std::max<int64_t>(written / 4096 * 4096, 0);
    if (written < 4096) return ENOSPC;
  }
  return 0;
}

int Preallocate(int descriptor, int64_t size_bytes) {  // 0 or an errno
  while (fallocate(descriptor, 0, 0, size_bytes) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP) return WriteZeros(descriptor, size_bytes);
    return errno;
  }
  return 0;
}

absl::Status TooSmall(const std::string& path, int64_t needed, int64_t available) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make '", path, "': it needs ", needed, " bytes (",
                   FormatSize(needed), "), but the filesystem has ", available,
                   " bytes (", FormatSize(available), ") available"));
}

}  // namespace

absl::StatusOr<int64_t> AvailableBytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) {
    return IoError(errno,
                   absl::StrCat("cannot ask for the free space of '", path, "'"));
  }
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

absl::StatusOr<SwapFile> CreateSwapFile(const std::string& directory,
                                        int64_t size_bytes) {
  SwapFile file{.path = absl::StrCat(directory, "/", SwapDirectory::kSwapFileName)};
  STRATA_ASSIGN_OR_RETURN(const int64_t available, AvailableBytes(directory));
  if (available < size_bytes) return TooSmall(file.path, size_bytes, available);
  constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
  file.descriptor = FileDescriptor(open(file.path.c_str(), kFlags | O_DIRECT, 0600));
  if (!file.descriptor.is_open() && errno == EINVAL) {
    unlink(file.path.c_str());  // some filesystems make the file and then say EINVAL
    file.is_direct = false;
    file.descriptor = FileDescriptor(open(file.path.c_str(), kFlags, 0600));
  }
  if (!file.descriptor.is_open()) {
    return IoError(errno, absl::StrCat("cannot create '", file.path, "'"));
  }
  const int error_number = Preallocate(file.descriptor.get(), size_bytes);
  if (error_number == ENOSPC || error_number == EDQUOT) {
    return TooSmall(file.path, size_bytes, available);
  }
  if (error_number != 0) {
    return IoError(error_number, absl::StrCat("cannot give '", file.path, "' its ",
                                              size_bytes, " bytes"));
  }
  return file;
}

}  // namespace strata
