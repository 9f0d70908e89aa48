/// Runs plans for real. The executor owns the arenas and the lanes, submits operations
/// as soon as their waits allow, polls completions, and takes no decision: what to run
/// next is the trainer's choice among verified plans.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/plan.h"
#include "runtime/storage/store.h"

namespace strata {

/// One computing operation with its operands in memory.
struct OpCall {
  const Plan& plan;
  const Op& op;
  /// Address of each operand's range, by Operand; null where the operation has none.
  std::array<std::byte*, kOperandCount> address;
  /// Ordinal of the Executor::Run call that this belongs to, from 1. Operations of run
  /// n may still be submitted to lanes while run n + 1 has begun, never while n + 2
  /// has.
  uint64_t run;

  template <typename T = std::byte>
  T* At(Operand operand) const {
    return reinterpret_cast<T*>(address[static_cast<int>(operand)]);
  }
};

/// The runtime's whole knowledge of a model: it computes one operation on `stream`.
/// Called for every operation that is no transfer, on a CPU device from the stream's worker (compute and cpu lane at once), on CUDA from the
/// thread that calls Executor::Run.
class OperationRunner {
 public:
  virtual ~OperationRunner() = default;
  virtual absl::Status Run(const OpCall& call, Stream& stream) = 0;
};

/// Time as the executor sees it, and what it does when no lane has made progress. The
/// real one reads the monotonic clock and backs off briefly; tests advance a virtual
/// one.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual double Seconds() = 0;
  virtual void Idle(int32_t idle_rounds) = 0;
  static Clock& Real();
};

/// An operation occupies its lane from begin to end. It ends when its completion is
/// seen; it begins when it was submitted, the one before it in its lane has ended and
/// all that it waits for has ended, whichever is last. (Transfers of an nvme lane
/// overlap at the store: a span there is the time by which an operation kept the lane
/// longer.)
struct TimelineSpan {
  uint32_t op = 0;
  int32_t plan = 0;
  Lane lane = Lane::kCompute;
  double begin_seconds = 0, end_seconds = 0;  // of the executor's clock
};

struct LaneReport {
  double busy_seconds = 0;   // covered by spans
  double stall_seconds = 0;  // time that the compute lane waited for this lane
  int64_t bytes = 0;         // of the copies, reads and writes that ended
};

/// What happened between the end of the run before (the start, for a first run) and the
/// end of this one, whichever of the two an operation belongs to. A run ends when its
/// result_op ends.
///
/// Time that the compute lane is not busy is charged to the lane of the operation that
/// ended last of those that the next compute operation waits for, up to that end, and
/// from there on to the compute lane itself; after the last compute operation, to the
/// lane of result_op. So busy time of the compute lane and all stalls add up to
/// `seconds`.
struct StepReport {
  double seconds = 0;
  std::array<LaneReport, kLaneCount> lanes;
};

struct ExecutorOptions {
  Device* device = nullptr;       // computes and copies
  Device* host_device = nullptr;  // a CpuDevice, for the cpu lane; may be `device`
  Store* store = nullptr;         // null if the plans use no nvme
  OperationRunner* runner = nullptr;
  Clock* clock = &Clock::Real();
  /// The most operations of one lane that are submitted and not complete: a store takes
  /// as many requests in each direction.
  int32_t lane_depth = 32;
  int32_t timeline_steps = 4;  // how many of the last runs are kept as spans
};

/// Not thread-safe. After an error it only drains and reports that error.
class Executor {
 public:
  /// Allocates both arenas and all queues; nothing is allocated afterwards. `set` and
  /// everything in `options` outlive the executor.
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      const PlanSet& set, const ExecutorOptions& options);
  virtual ~Executor() = default;

  /// Runs plans[plan] until its results are in host memory. Its tail may still be under
  /// way when this returns. REQUIRES: a link from the plan that ran before, unless this
  /// is the first run after Create or Drain.
  virtual absl::StatusOr<StepReport> Run(int32_t plan) = 0;

  /// Completes everything. Called by the destructor too.
  virtual absl::Status Drain() = 0;

  /// The host arena; the trainer writes inputs and reads results here.
  virtual std::byte* host_memory() const = 0;

  /// Blocking access to homes, for loading, checkpoints and export, `size_bytes` from
  /// `offset` in `extent`'s tier. REQUIRES: drained. On nvme exactly a whole extent as
  /// the plans transfer it.
  virtual absl::Status ReadHome(const Extent& extent, std::span<std::byte> target) = 0;
  virtual absl::Status WriteHome(const Extent& extent,
                                 std::span<const std::byte> source) = 0;

  /// Spans of the last timeline_steps runs, oldest first.
  virtual std::vector<TimelineSpan> Timeline() const = 0;
  /// Bytes of the arenas that were really allocated.
  virtual TierBytes allocated_bytes() const = 0;
};

}  // namespace strata
