#include "tiers/chunk_queue.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cerrno>

#include "runtime/base/status.h"

namespace strata {
namespace {

/// EINTR and EAGAIN in a row, with no byte moved in between, before we believe them.
constexpr int kInterruptionsMax = 64;
/// A drive's own error may be a passing one; two are a fact.
constexpr int kDeviceErrorRetriesMax = 1;

/// Not an errno: a read got nothing where bytes were written.
constexpr int kEndOfFile = -1;

bool IsInterruption(int error_number) {
  return error_number == EINTR || error_number == EAGAIN || error_number == EBUSY;
}

/// Errors after which the same bytes may still get through. A full disk, a refused
/// argument or a read-only filesystem stays what it is.
bool IsDeviceError(int error_number) {
  switch (error_number) {
    case kEndOfFile:
    case EIO:
    case EBADMSG:
    case ENODATA:
    case EREMOTEIO:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

}  // namespace

ChunkQueue::ChunkQueue(std::unique_ptr<IoQueue> queue, std::vector<std::string> paths)
    : queue_(std::move(queue)),
      paths_(std::move(paths)),
      slots_(static_cast<size_t>(queue_->depth())),
      outcomes_(static_cast<size_t>(queue_->depth())) {
  for (int i = queue_->depth() - 1; i >= 0; --i) free_slots_.push_back(i);
}

void ChunkQueue::Start(const Chunk& chunk) {
  STRATA_CHECK(!free_slots_.empty());
  STRATA_CHECK(chunk.size_bytes > 0 && chunk.size_bytes <= kSizeMax);
  STRATA_CHECK(chunk.offset % kAlignment == 0 && chunk.size_bytes % kAlignment == 0);
  STRATA_CHECK(reinterpret_cast<uintptr_t>(chunk.memory) % kAlignment == 0);
  const int index = free_slots_.back();
  free_slots_.pop_back();
  slots_[index] = {.chunk = chunk, .in_use = true};
  ++in_flight_count_;
  Submit(index);
}

void ChunkQueue::Submit(int index) {
  const Slot& slot = slots_[index];
  queue_->Submit({.op = slot.chunk.op,
                  .file = slot.chunk.file,
                  .offset = slot.chunk.offset + slot.done_bytes,
                  .memory = slot.chunk.memory + slot.done_bytes,
                  .size_bytes = slot.chunk.size_bytes - slot.done_bytes,
                  .tag = static_cast<uint64_t>(index),
                  .retry_count = slot.retry_count});
}

int ChunkQueue::Reap(std::span<ChunkResult> results, std::chrono::milliseconds wait) {
  const size_t outcome_limit = std::min(results.size(), outcomes_.size());
  const int outcome_count =
      queue_->Reap(std::span(outcomes_).first(outcome_limit), wait);
  int count = 0;
  for (int i = 0; i < outcome_count; ++i) {
    const int index = static_cast<int>(outcomes_[i].tag);
    STRATA_CHECK(slots_[index].in_use);
    bool finished = false;
    absl::Status status = Advance(index, outcomes_[i].result, &finished);
    if (status.ok() && !finished) continue;
    results[count++] = {.tag = slots_[index].chunk.tag, .status = std::move(status)};
    slots_[index].in_use = false;
    free_slots_.push_back(index);
    --in_flight_count_;
  }
  return count;
}

absl::Status ChunkQueue::Advance(int index, int64_t result, bool* finished) {
  Slot& slot = slots_[index];
  const bool is_read = slot.chunk.op == IoOp::kRead;
  if (result < 0) return Retry(index, static_cast<int>(-result));
  STRATA_CHECK(result <= slot.chunk.size_bytes - slot.done_bytes);
  (is_read ? counters_.bytes_read : counters_.bytes_written) += result;
  if (result == slot.chunk.size_bytes - slot.done_bytes) {
    *finished = true;
    return absl::OkStatus();
  }
  ++counters_.short_count;
  const int64_t progress = result / kAlignment * kAlignment;
  // Less than a page. Every range that is read was written, so a read then met the end
  // of a truncated file, unless the next attempt gets further.
  if (progress == 0) return Retry(index, is_read ? kEndOfFile : EIO);
  slot.done_bytes += progress;
  slot.retry_count = 0;
  Submit(index);
  return absl::OkStatus();
}

absl::Status ChunkQueue::Retry(int index, int error_number) {
  Slot& slot = slots_[index];
  if (IsInterruption(error_number)) {
    if (slot.retry_count >= kInterruptionsMax) return Error(slot, error_number);
  } else if (IsDeviceError(error_number)) {
    if (slot.device_error_count >= kDeviceErrorRetriesMax) {
      return Error(slot, error_number);
    }
    ++slot.device_error_count;
  } else {
    return Error(slot, error_number);
  }
  ++slot.retry_count;
  ++counters_.retry_count;
  Submit(index);
  return absl::OkStatus();
}

std::string ChunkQueue::Describe(const Slot& slot) const {
  const Chunk& chunk = slot.chunk;
  return absl::StrCat(Name(chunk.op), " '", chunk.name, "' at ", chunk.offset, "+",
                      chunk.size_bytes, " in ", paths_[chunk.file], " (after ",
                      slot.done_bytes, " bytes and ", slot.retry_count, " retries)");
}

absl::Status ChunkQueue::Error(const Slot& slot, int error_number) const {
  if (error_number != kEndOfFile) return IoError(error_number, Describe(slot));
  return absl::DataLossError(
      absl::StrCat(Describe(slot), ": the file ends before these bytes"));
}

std::unique_ptr<IoQueue> ChunkQueue::TakeQueue() {
  STRATA_CHECK(in_flight_count_ == 0);
  return std::move(queue_);
}

}  // namespace strata
