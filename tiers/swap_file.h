/// The one file of a run in one directory: preallocated in full, so that a disk that is
/// too small shows before the run starts and no write extends the file later, and
/// opened past the page cache.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>

#include "tiers/file_descriptor.h"

namespace strata {

struct SwapFile {
  FileDescriptor descriptor;
  std::string path;
  bool is_direct = true;  // false: this filesystem has no O_DIRECT
};

/// Makes `directory`/swap of `size_bytes`. ResourceExhausted, with the bytes needed and
/// available, if they are not there; what exists of the file then is the caller's to
/// remove, with its directory. The calling thread must have SIGXFSZ blocked.
absl::StatusOr<SwapFile> CreateSwapFile(const std::string& directory,
                                        int64_t size_bytes);

/// Bytes that an unprivileged user may still write into the filesystem of `path`.
absl::StatusOr<int64_t> AvailableBytes(const std::string& path);

}  // namespace strata
