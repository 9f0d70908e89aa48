/// A Store is the NVMe tier as the executor sees it: one flat byte address space that
/// the plan has laid out, with asynchronous reads and writes and a checksum on every
/// extent.
///
/// The interface lives here and its implementations in tiers/, so that the runtime
/// knows nothing of files, rings or drives.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/types.h"

namespace strata {

/// A position in a lane: the first piece of work that was submitted to it has ticket 1,
/// and so on. 0 means "nothing".
using Ticket = uint64_t;

/// Reads and writes form two lanes. Requests of one lane run side by side; the caller
/// orders conflicting ones by waiting. Not thread-safe: the executor's thread makes
/// every call. Nothing here blocks, and nothing allocates after the store was made.
class Store {
 public:
  /// Offsets, sizes and memory addresses of every request are multiples of this.
  static constexpr int64_t kAlignment = 4 * kKiB;

  virtual ~Store() = default;
  virtual int64_t capacity_bytes() const = 0;

  /// Starts a transfer. `memory` stays valid and untouched until its ticket completes,
  /// and so does `name`, which says in error messages whose bytes these are
  /// ("block.3/state[2]"). A range that was never written reads as FailedPrecondition;
  /// a range is read back with the offset and size with which it was written (checksums
  /// belong to whole requests).
  virtual Ticket Read(int64_t offset, std::byte* memory, int64_t size_bytes,
                      absl::string_view name) = 0;
  virtual Ticket Write(int64_t offset, const std::byte* memory, int64_t size_bytes,
                       absl::string_view name) = 0;

  /// Says where the memory of requests will lie, so that the kernel need not look it up
  /// and pin it each time: an optimization, which a store may ignore. In place of what
  /// was said before; nothing of it is used after RegisterMemory({}). May block.
  /// REQUIRES: no request is in flight; ranges begin and end at multiples of
  /// kAlignment.
  virtual void RegisterMemory(std::span<const std::span<std::byte>> ranges) {
    static_cast<void>(ranges);
  }

  /// All requests up to the returned ticket are complete. After a failure: the first
  /// error, by ticket, for ever; it names `name`, file, offset, bytes and errno.
  virtual absl::StatusOr<Ticket> ReadsCompleted() = 0;
  virtual absl::StatusOr<Ticket> WritesCompleted() = 0;

  /// Blocks until no request is in flight, whatever its result: before memory is freed.
  virtual void Drain() = 0;

  /// Bytes moved since the store was made, as the drives saw them.
  virtual int64_t bytes_read() const = 0;
  virtual int64_t bytes_written() const = 0;
};

}  // namespace strata
