/// Makes an executor's reports and timeline from the begin and end of each operation.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "runtime/plan/executor.h"
#include "runtime/plan/plan.h"

namespace strata {

/// The operation that ended last of those that another one waited for.
struct LastAwaited {
  double end_seconds = 0;
  Lane lane = Lane::kCompute;
};

/// Not thread-safe. Allocates nothing after it was made.
class StepMeter {
 public:
  /// Keeps the spans of `timeline_steps` runs of at most `op_count_max` operations.
  StepMeter(int32_t timeline_steps, size_t op_count_max);

  /// A first run starts: nothing before `now` is reported.
  void Open(double now);
  /// From here on `run` (ordinals in sequence) takes the place of the oldest run in the
  /// timeline.
  void BeginRun(uint64_t run);
  /// An operation of `run` has ended that moved `bytes`.
  void AddEnded(uint64_t run, const TimelineSpan& span, int64_t bytes,
                const LastAwaited& awaited);
  /// At `now`, just before Close(), an operation has begun and not ended.
  void AddUnfinished(Lane lane, double begin, double now, const LastAwaited& awaited);
  /// The run ends whose last operation is of `result_lane`; the next one begins.
  StepReport Close(double now, Lane result_lane);

  std::vector<TimelineSpan> Timeline() const;

 private:
  struct RunSpans {
    uint64_t run = 0;
    std::vector<TimelineSpan> spans;
  };

  RunSpans& SpansOf(uint64_t run) { return runs_[run % runs_.size()]; }
  void Cover(Lane lane, double begin, double end, const LastAwaited& awaited);
  /// The compute lane was not busy from `from` to `to`.
  void ChargeStall(double from, double to, const LastAwaited& awaited);

  StepReport report_;
  double opened_seconds_ = 0;
  std::array<double, kLaneCount> covered_seconds_ = {};  // reported up to here
  std::vector<RunSpans> runs_;                           // ring by ordinal
  uint64_t last_run_ = 0;
};

}  // namespace strata
