/// The bookkeeping of one lane of a store: tickets, the requests behind them, and the
/// prefix of them that is complete.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/base/mutex.h"
#include "runtime/storage/store.h"
#include "tiers/io_queue.h"

namespace strata {

/// One read or write of the executor. The executor's thread fills it; the I/O threads
/// of the directories that it touches work on it; the last of them gives it back.
struct StoreRequest {
  IoOp op = IoOp::kRead;
  int index = 0;  // of this slot, among all of the store
  int64_t offset = 0;
  std::byte* memory = nullptr;
  int64_t size_bytes = 0;
  absl::string_view name;

  std::atomic<int> directories_left = 0;  // 0: complete

  /// Keeps the error with the lowest offset. Any thread.
  void Fail(int64_t error_offset, absl::Status status);
  /// OK, or that error. REQUIRES: complete.
  absl::Status TakeError();

 private:
  Mutex mutex_;
  absl::Status error_ STRATA_GUARDED_BY(mutex_);
  int64_t error_offset_ STRATA_GUARDED_BY(mutex_) = 0;
};

/// Used by the executor's thread only.
class RequestLane {
 public:
  /// Slots are numbered from `first_index`.
  RequestLane(IoOp op, int first_index, int request_count_max);

  /// The slot of a new request, and its ticket in `ticket`. REQUIRES: fewer than
  /// request_count_max requests between the oldest incomplete one and the newest.
  StoreRequest& Begin(Ticket* ticket);

  /// The last ticket of the complete prefix, or for ever the first error in it.
  absl::StatusOr<Ticket> Completed();
  /// Makes `status` that error, unless there is one.
  void Fail(const absl::Status& status);

 private:
  StoreRequest& SlotOf(Ticket ticket) { return slots_[(ticket - 1) % slot_count_]; }
  void Advance();

  const uint64_t slot_count_;
  const std::unique_ptr<StoreRequest[]> slots_;
  Ticket last_ = 0;
  Ticket completed_ = 0;
  absl::Status error_;
};

}  // namespace strata
