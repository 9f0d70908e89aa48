/// Filesystems of the test's own. They need the right to mount; a program that uses
/// them is a ctest entry of its own, which ctest reports as skipped where that is
/// missing.
#pragma once

#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/base/status.h"
#include "tests/support/temp_directory.h"
#include "tiers/file_descriptor.h"

namespace strata {

/// A tmpfs of a limited size.
class TmpfsMount {
 public:
  TmpfsMount(const std::string& options, unsigned long flags) {
    ok_ =
        mount("tmpfs", directory_.path().c_str(), "tmpfs", flags, options.c_str()) == 0;
  }
  ~TmpfsMount() {
    if (ok_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool ok() const { return ok_; }
  const std::string& path() const { return directory_.path(); }

 private:
  TempDirectory directory_;
  bool ok_ = false;
};

/// An ext4 on a loop device over a sparse file. Without a journal, and with nothing
/// left to initialise, it writes little of its own; with one it survives a loss of
/// power.
class LoopMount {
 public:
  enum class Journal { kNone, kSome };

  explicit LoopMount(int64_t size_bytes, Journal journal = Journal::kNone) {
    const std::string image = directory_ / "image";
    { std::ofstream(image).close(); }
    const std::string make =
        absl::StrCat("mkfs.ext4 -q -m0 -E lazy_itable_init=0 ",
                     journal == Journal::kNone ? "-O ^has_journal " : "");
    ok_ = truncate(image.c_str(), size_bytes) == 0 && Attach(image) &&
          std::system((make + device_ + " >/dev/null 2>&1").c_str()) == 0 && Mount();
  }
  ~LoopMount() {
    if (ok_) umount2(mount_point_.path().c_str(), MNT_DETACH);
    if (loop_.is_open()) ioctl(loop_.get(), LOOP_CLR_FD, 0);
  }
  bool ok() const { return ok_; }
  const std::string& path() const { return mount_point_.path(); }

  /// The device is gone: what was not made durable is lost.
  bool LosePower() {
    const FileDescriptor root(open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    constexpr unsigned long kShutdown = _IOR('X', 125, uint32_t);  // EXT4_IOC_SHUTDOWN
    uint32_t without_flush = 2;
    return ioctl(root.get(), kShutdown, &without_flush) == 0;
  }
  /// Mounts it again, which replays the journal. REQUIRES: nobody has a file open.
  bool PowerUp() {
    ok_ = umount2(mount_point_.path().c_str(), 0) == 0 && Mount();
    return ok_;
  }

  struct Counts {
    int64_t bytes_read;
    int64_t bytes_written;
  };
  /// What the block device has moved since it exists, once the filesystem's own writes
  /// are done.
  Counts counts() const {
    const FileDescriptor root(open(path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    STRATA_CHECK(syncfs(root.get()) == 0);
    std::ifstream file("/sys/block/" + device_.substr(5) + "/stat");
    // requests, merges, sectors of 512 bytes, milliseconds; for reads, then for writes
    int64_t values[7] = {};
    for (int64_t& value : values) file >> value;
    return {.bytes_read = values[2] * 512, .bytes_written = values[6] * 512};
  }

 private:
  bool Attach(const std::string& image) {
    const FileDescriptor control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const FileDescriptor backing(open(image.c_str(), O_RDWR | O_CLOEXEC));
    if (!control.is_open() || !backing.is_open()) return false;
    for (int attempt = 0; attempt < 10; ++attempt) {  // others may take the number
      const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
      if (number < 0) return false;
      device_ = "/dev/loop" + std::to_string(number);
      loop_ = FileDescriptor(open(device_.c_str(), O_RDWR | O_CLOEXEC));
      if (loop_.is_open() && ioctl(loop_.get(), LOOP_SET_FD, backing.get()) == 0) {
        return true;
      }
    }
    return false;
  }

  bool Mount() {
    return mount(device_.c_str(), mount_point_.path().c_str(), "ext4", 0, "") == 0;
  }

  TempDirectory directory_;
  TempDirectory mount_point_;
  std::string device_;
  FileDescriptor loop_;
  bool ok_ = false;
};

}  // namespace strata
