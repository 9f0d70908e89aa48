/// A Store in memory, for tests of what sits above stores. It is stricter than a drive:
/// it aborts on requests in flight that conflict, and in manual mode the test decides
/// when each request happens, in any order, so that memory reused too early shows.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/storage/store.h"

namespace strata {

/// Not thread-safe.
class MemoryStore final : public Store {
 public:
  enum class Mode {
    kImmediate,  // a request is complete when the call returns
    kManual,     // a request happens in Run(), RunAll() or Drain()
  };
  enum class LaneKind { kRead, kWrite };

  MemoryStore(int64_t capacity_bytes, Mode mode)
      : mode_(mode), bytes_(static_cast<size_t>(capacity_bytes)) {}

  int64_t capacity_bytes() const override {
    return static_cast<int64_t>(bytes_.size());
  }

  Ticket Read(int64_t offset, std::byte* memory, int64_t size_bytes,
              absl::string_view name) override {
    return Start(LaneKind::kRead, {offset, memory, nullptr, size_bytes, name});
  }
  Ticket Write(int64_t offset, const std::byte* memory, int64_t size_bytes,
               absl::string_view name) override {
    return Start(LaneKind::kWrite, {offset, nullptr, memory, size_bytes, name});
  }

  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override {
    registered_.assign(ranges.begin(), ranges.end());
  }
  const std::vector<std::span<std::byte>>& registered() const { return registered_; }

  absl::StatusOr<Ticket> ReadsCompleted() override { return Completed(reads_); }
  absl::StatusOr<Ticket> WritesCompleted() override { return Completed(writes_); }
  void Drain() override { RunAll(); }
  int64_t bytes_read() const override { return reads_.moved_bytes; }
  int64_t bytes_written() const override { return writes_.moved_bytes; }

  /// Requests of a lane that have not happened yet.
  int pending_count(LaneKind kind) const {
    return static_cast<int>(lane(kind).pending.size());
  }
  /// Lets the `index`-th oldest pending request happen.
  void Run(LaneKind kind, int index) {
    Lane& chosen = lane(kind);
    STRATA_CHECK(index >= 0 && index < pending_count(kind));
    const auto request = chosen.pending.begin() + index;
    Happen(kind, request->first, request->second);
    chosen.pending.erase(request);
  }
  void RunAll() {
    while (!writes_.pending.empty()) Run(LaneKind::kWrite, 0);
    while (!reads_.pending.empty()) Run(LaneKind::kRead, 0);
  }
  /// The request with this ticket fails when it happens.
  void FailTicket(LaneKind kind, Ticket ticket, absl::Status status) {
    lane(kind).planned_errors[ticket] = std::move(status);
  }
  /// Flips one bit at rest.
  void Corrupt(int64_t offset) { bytes_[static_cast<size_t>(offset)] ^= std::byte{1}; }

 private:
  struct Request {
    int64_t offset;
    std::byte* target;        // reads
    const std::byte* source;  // writes
    int64_t size_bytes;
    absl::string_view name;
  };
  struct Lane {
    Ticket last = 0;
    std::vector<std::pair<Ticket, Request>> pending;  // oldest first
    std::map<Ticket, absl::Status> planned_errors;
    std::map<Ticket, absl::Status> errors;
    int64_t moved_bytes = 0;
  };
  struct Range {
    int64_t size_bytes;
    uint64_t checksum;
  };

  Lane& lane(LaneKind kind) { return kind == LaneKind::kRead ? reads_ : writes_; }
  const Lane& lane(LaneKind kind) const {
    return kind == LaneKind::kRead ? reads_ : writes_;
  }

  static bool Overlap(const Request& a, const Request& b) {
    return a.offset < b.offset + b.size_bytes && b.offset < a.offset + a.size_bytes;
  }

  Ticket Start(LaneKind kind, const Request& request) {
    const auto address = reinterpret_cast<uintptr_t>(
        kind == LaneKind::kRead ? request.target : request.source);
    STRATA_CHECK(request.offset % kAlignment == 0 &&
                 request.size_bytes % kAlignment == 0);
    STRATA_CHECK(address % kAlignment == 0 && request.size_bytes > 0);
    STRATA_CHECK(request.offset >= 0 &&
                 request.offset + request.size_bytes <= capacity_bytes());
    for (const auto& [ticket, other] : writes_.pending) {
      STRATA_CHECK(!Overlap(request, other));
    }
    if (kind == LaneKind::kWrite) {
      for (const auto& [ticket, other] : reads_.pending) {
        STRATA_CHECK(!Overlap(request, other));
      }
    }
    Lane& chosen = lane(kind);
    const Ticket ticket = ++chosen.last;
    if (mode_ == Mode::kManual) {
      chosen.pending.emplace_back(ticket, request);
    } else {
      Happen(kind, ticket, request);
    }
    return ticket;
  }

  void Happen(LaneKind kind, Ticket ticket, const Request& request) {
    Lane& chosen = lane(kind);
    absl::Status status = absl::OkStatus();
    if (const auto planned = chosen.planned_errors.find(ticket);
        planned != chosen.planned_errors.end()) {
      status = planned->second;
    } else if (kind == LaneKind::kRead) {
      status = DoRead(request);
    } else {
      DoWrite(request);
    }
    if (status.ok()) chosen.moved_bytes += request.size_bytes;
    if (!status.ok()) chosen.errors.emplace(ticket, std::move(status));
  }

  absl::Status DoRead(const Request& request) {
    const auto range = ranges_.find(request.offset);
    const std::string where =
        absl::StrCat("read '", request.name, "' at ", request.offset, "+",
                     request.size_bytes, " in memory");
    if (range == ranges_.end() || range->second.size_bytes != request.size_bytes) {
      return absl::FailedPreconditionError(absl::StrCat(where, ": never written so"));
    }
    const size_t size = static_cast<size_t>(request.size_bytes);
    std::memcpy(request.target, &bytes_[static_cast<size_t>(request.offset)], size);
    if (Checksum(request.target, size) != range->second.checksum) {
      return absl::DataLossError(absl::StrCat(where, ": checksum differs"));
    }
    return absl::OkStatus();
  }

  void DoWrite(const Request& request) {
    const int64_t end = request.offset + request.size_bytes;
    for (auto it = ranges_.begin(); it != ranges_.end();) {
      const bool overlaps =
          it->first < end && request.offset < it->first + it->second.size_bytes;
      it = overlaps ? ranges_.erase(it) : std::next(it);
    }
    const size_t size = static_cast<size_t>(request.size_bytes);
    std::memcpy(&bytes_[static_cast<size_t>(request.offset)], request.source, size);
    ranges_[request.offset] = {request.size_bytes, Checksum(request.source, size)};
  }

  static uint64_t Checksum(const std::byte* memory, size_t size) {  // FNV-1a
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < size; ++i) {
      hash = (hash ^ static_cast<uint64_t>(memory[i])) * 1099511628211u;
    }
    return hash;
  }

  static absl::StatusOr<Ticket> Completed(const Lane& lane) {
    const Ticket done = lane.pending.empty() ? lane.last : OldestPending(lane) - 1;
    if (!lane.errors.empty() && lane.errors.begin()->first <= done) {
      return lane.errors.begin()->second;
    }
    return done;
  }
  static Ticket OldestPending(const Lane& lane) {
    return std::min_element(
               lane.pending.begin(), lane.pending.end(),
               [](const auto& a, const auto& b) { return a.first < b.first; })
        ->first;
  }

  const Mode mode_;
  std::vector<std::span<std::byte>> registered_;
  std::vector<std::byte> bytes_;
  std::map<int64_t, Range> ranges_;  // what was written, by offset
  Lane reads_;
  Lane writes_;
};

}  // namespace strata
