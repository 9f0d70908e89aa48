/// What the kernel says about this machine: small files below /proc and /sys, and the
/// answers of a few system calls. Tests look at a directory instead of the real root.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata {

struct SystemView {
  std::string root;          // goes before /proc and /sys; "" on a real system
  std::string kernel;        // "6.1.0-13-amd64"
  std::string architecture;  // "x86_64"
  int64_t page_bytes = 0;
  int64_t core_count = 0;                  // that this process may run on
  std::optional<int64_t> memlock_bytes;    // RLIMIT_MEMLOCK; absent: unlimited
  std::optional<int64_t> file_size_bytes;  // RLIMIT_FSIZE; absent: unlimited
  int64_t shm_bytes = 0;                   // size of /dev/shm; 0: there is none

  static SystemView OfThisMachine();

  /// The first line of a file, without its end; nothing if it cannot be read.
  std::optional<std::string> Line(const std::string& path) const;
  std::optional<int64_t> Number(const std::string& path) const;
  /// The value of the first line "name: value" or "name<tab>: value".
  std::optional<std::string> Field(const std::string& path,
                                   const std::string& name) const;
  /// Names in a directory, sorted; none if it is not there.
  std::vector<std::string> List(const std::string& path) const;
  bool Exists(const std::string& path) const;

  /// May this process lock any amount of memory (CAP_IPC_LOCK)?
  bool MayLockAnyMemory() const;
  /// Is the kernel at least this version?
  bool IsKernelAtLeast(int major, int minor) const;
};

}  // namespace strata
