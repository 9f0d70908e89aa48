/// Which I/O backend works here, found out by using it: containers and old kernels let
/// a ring be set up and then refuse to do anything with it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "tiers/io_queue.h"

namespace strata {

enum class IoBackend : uint8_t { kAuto, kIoUring, kLibaio, kThreads };

/// The order in which kAuto tries.
inline constexpr std::array<IoBackend, 3> kIoBackends = {
    IoBackend::kIoUring, IoBackend::kLibaio, IoBackend::kThreads};

/// "auto", "io_uring", "libaio" or "threads".
const char* Name(IoBackend backend);
/// InvalidArgument, naming the text and the choices, if it is none of them.
absl::StatusOr<IoBackend> ParseIoBackend(absl::string_view text);

/// A queue of one backend; kAuto is none. Not yet proven to work.
absl::StatusOr<std::unique_ptr<IoQueue>> MakeIoQueue(IoBackend backend,
                                                     const IoQueueOptions& options);

struct OpenedQueue {
  std::unique_ptr<IoQueue> queue;
  IoBackend backend = IoBackend::kThreads;
  /// "io_uring, the first choice", "threads, because io_uring ...: ...; libaio ...:
  /// ...".
  std::string why;
};

/// A queue that has written and read back the first page of its first file, whose bytes
/// there are lost. A forced backend that fails is an error, never a different backend.
absl::StatusOr<OpenedQueue> OpenIoQueue(IoBackend wanted,
                                        const IoQueueOptions& options);

struct IoProbe {
  IoBackend backend = IoBackend::kThreads;
  std::string description;  // what it offers, if it works
  absl::Status status;      // why it does not
  bool is_direct = true;    // false: the filesystem has no O_DIRECT
};

/// Tries every backend in `nvme_path` and leaves nothing there. An error is the
/// directory's.
absl::StatusOr<std::vector<IoProbe>> ProbeIoBackends(const std::string& nvme_path);

}  // namespace strata
