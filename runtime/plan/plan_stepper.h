/// Steps through runs of plans: submits each lane's operations in order as soon as what
/// they wait for is complete, or is work that the lane's device can wait for by itself,
/// and notes when they end.
#pragma once

#include <absl/status/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/plan/executor.h"
#include "runtime/plan/executor_lanes.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_index.h"
#include "runtime/plan/step_meter.h"

namespace strata {

struct ArenaAddresses {
  std::byte* device = nullptr;
  std::byte* host = nullptr;

  /// REQUIRES: `access` is not of nvme.
  std::byte* Of(const Access& access) const {
    return (access.tier == TierKind::kDevice ? device : host) + access.offset;
  }
};

/// Not thread-safe; allocates nothing after it was made, except for errors. At most two
/// runs are under way: the newest and the one before it.
class PlanStepper {
 public:
  /// Everything that is passed in outlives the stepper.
  PlanStepper(const PlanSet& set, const ExecutorOptions& options, ExecutorLanes& lanes,
              const ArenaAddresses& arenas);

  /// Begins a run of plans[plan] whose operations wait for the newest run as
  /// links[link] says; link -1: as a first run. REQUIRES: MayBegin(); IsIdle() for a
  /// first run.
  void Begin(int32_t plan, int32_t link);
  /// Is at most the newest run under way?
  bool MayBegin() const { return RunOf(newest_ - 1).left == 0; }
  bool IsIdle() const { return MayBegin() && RunOf(newest_).left == 0; }
  /// Has the newest run's result_op ended?
  bool HasResults() const;
  /// The report of the run that has just got its results.
  StepReport Close();

  /// Looks at every lane once, retires what is complete and submits what may go. Lets
  /// the clock idle if nothing moved. An error is a lane's, with the plan, lane and
  /// operation it comes from; what was submitted is still under way then.
  absl::Status Step();

  std::vector<TimelineSpan> Timeline() const { return meter_.Timeline(); }

 private:
  static constexpr double kNotEnded = -1;

  struct OpState {
    Ticket ticket = 0;  // 0: not submitted
    double submit_seconds = 0;
    double end_seconds = kNotEnded;
  };
  /// One run. Tasks in workers read what Begin() sets before `ops`.
  struct Run {
    const PlanStepper* stepper = nullptr;
    int32_t plan_index = -1;
    const Plan* plan = nullptr;
    const PlanIndex* index = nullptr;
    const LinkIndex* link = nullptr;  // null: a first run
    const Run* previous = nullptr;    // null: a first run
    uint64_t ordinal = 0;
    std::vector<OpState> ops;
    size_t left = 0;  // operations that have not ended
  };
  struct OpRef {
    Run* run = nullptr;
    uint32_t op = 0;
    OpState& state() const { return run->ops[op]; }
    const Op& get() const { return run->plan->ops[op]; }
  };
  struct Awaited {
    const Run* run;
    uint32_t op;
  };
  struct Cursor {
    uint64_t run = 1;
    size_t next = 0;  // in the lane's operations of that run
  };
  struct LaneState {
    Cursor submit, retire;
    uint32_t passed_waits = 0;  // of the operation at `submit`
    int32_t in_flight_count = 0;
    double end_seconds = 0;  // of the last one that ended
  };
  struct Begun {
    bool has_begun = false;  // false: it waits for something
    double seconds = 0;
    LastAwaited awaited;
  };

  const Run& RunOf(uint64_t ordinal) const { return runs_[ordinal % runs_.size()]; }
  Run& RunOf(uint64_t ordinal) { return runs_[ordinal % runs_.size()]; }
  LaneState& StateOf(Lane lane) { return lane_states_[static_cast<size_t>(lane)]; }
  /// The operation at a lane's cursor; `run` is null if the lane has no more.
  OpRef Head(Lane lane, Cursor& cursor);

  static size_t WaitCount(const OpRef& ref);
  static Awaited WaitAt(const OpRef& ref, size_t index);
  /// May what waits in `lane` for `awaited` be submitted? Chains it if need be.
  bool Passes(Lane lane, const Awaited& awaited);
  bool TrySubmit(Lane lane);
  Ticket Submit(const OpRef& ref);
  bool Retire(Lane lane, Ticket completed);
  Begun BeginOf(Lane lane, const OpRef& ref) const;

  static absl::Status RunTask(void* run, uint32_t op, Stream& stream);
  absl::Status DescribeError(Lane lane, const absl::Status& status);

  const PlanSet& set_;
  OperationRunner& runner_;
  Clock& clock_;
  const int32_t lane_depth_;
  ExecutorLanes& lanes_;
  const ArenaAddresses arenas_;
  std::vector<PlanIndex> plan_indices_;
  std::vector<LinkIndex> link_indices_;

  // The newest run, the one before, and the one before that for the times at which its
  // operations ended.
  std::array<Run, 3> runs_;
  uint64_t newest_ = 0;
  std::array<LaneState, kLaneCount> lane_states_;
  StepMeter meter_;
  double now_ = 0;
  int32_t idle_rounds_ = 0;
};

}  // namespace strata
