#include "tiers/request_lane.h"

#include <utility>

#include "runtime/base/status.h"

namespace strata {

void StoreRequest::Fail(int64_t error_offset, absl::Status status) {
  MutexLock lock(mutex_);
  if (!error_.ok() && error_offset_ <= error_offset) return;
  error_ = std::move(status);
  error_offset_ = error_offset;
}

absl::Status StoreRequest::TakeError() {
  MutexLock lock(mutex_);
  return std::exchange(error_, absl::OkStatus());
}

RequestLane::RequestLane(IoOp op, int first_index, int request_count_max)
    : slot_count_(static_cast<uint64_t>(request_count_max)),
      slots_(new StoreRequest[slot_count_]) {
  STRATA_CHECK(request_count_max > 0);
  for (int i = 0; i < request_count_max; ++i) {
    slots_[i].op = op;
    slots_[i].index = first_index + i;
  }
}

StoreRequest& RequestLane::Begin(Ticket* ticket) {
  Advance();
  STRATA_CHECK(last_ - completed_ < slot_count_);
  *ticket = ++last_;
  return SlotOf(last_);
}

absl::StatusOr<Ticket> RequestLane::Completed() {
  Advance();
  if (!error_.ok()) return error_;
  return completed_;
}

void RequestLane::Fail(const absl::Status& status) {
  if (error_.ok()) error_ = status;
}

void RequestLane::Advance() {
  while (completed_ < last_) {
    StoreRequest& request = SlotOf(completed_ + 1);
    if (request.directories_left.load(std::memory_order_acquire) != 0) return;
    absl::Status error = request.TakeError();
    if (error_.ok()) error_ = std::move(error);
    ++completed_;
  }
}

}  // namespace strata
