/// An eventfd with which one thread ends the waiting of another.
#pragma once

#include <absl/status/status.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "runtime/base/status.h"
#include "tiers/file_descriptor.h"

namespace strata {

class WakeEvent {
 public:
  absl::Status Open() {
    event_ = FileDescriptor(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return event_.is_open() ? absl::OkStatus() : IoError(errno, "eventfd");
  }

  /// Readable until Clear().
  int descriptor() const { return event_.get(); }

  /// Any thread. The counter cannot overflow: the waiter clears it each time.
  void Signal() {
    const uint64_t one = 1;
    while (write(event_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
    }
  }
  void Clear() {
    uint64_t count = 0;
    while (read(event_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
    }
  }

 private:
  FileDescriptor event_;
};

}  // namespace strata
