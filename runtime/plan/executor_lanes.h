/// The lanes of an executor: streams of its devices, and both directions of its store.
/// Each hands out tickets in the order of submission.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/device/device.h"
#include "runtime/plan/executor.h"
#include "runtime/plan/plan.h"
#include "runtime/storage/store.h"

namespace strata {

/// Not thread-safe. Destroying it completes what was submitted to streams, not what was
/// submitted to the store.
class ExecutorLanes {
 public:
  /// Makes the streams of the lanes that `set` uses, and of both copy lanes for
  /// ReadHome and WriteHome.
  static absl::StatusOr<std::unique_ptr<ExecutorLanes>> Create(
      const PlanSet& set, const ExecutorOptions& options);

  /// Can `waiter` be told to wait for `awaited`, without the executor?
  bool CanChain(Lane waiter, Lane awaited) const;
  /// What is submitted to `waiter` next starts only after `ticket` of `awaited`.
  /// REQUIRES: CanChain.
  void Chain(Lane waiter, Lane awaited, Ticket ticket);

  Ticket Run(Lane lane, const Task& task);
  Ticket Copy(Lane lane, std::byte* target, const std::byte* source,
              int64_t size_bytes);
  Ticket Read(int64_t offset, std::byte* target, int64_t size_bytes,
              absl::string_view name);
  Ticket Write(int64_t offset, const std::byte* source, int64_t size_bytes,
               absl::string_view name);

  /// The last ticket such that it and all before it are complete, or the lane's first
  /// error for ever.
  absl::StatusOr<Ticket> Completed(Lane lane);

  /// Blocks until nothing that was submitted is under way any more, whatever came of
  /// it.
  void Finish();

 private:
  explicit ExecutorLanes(Store* store) : store_(store) {}
  Stream* StreamOf(Lane lane) const {
    return streams_[static_cast<size_t>(lane)].get();
  }

  Store* const store_;                                       // not owned; may be null
  std::array<std::unique_ptr<Stream>, kLaneCount> streams_;  // null for nvme lanes
};

}  // namespace strata
