#include "runtime/plan/plan_stepper.h"

#include <absl/strings/cord.h>
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {
namespace {

// Marks an error that names its operation already.
constexpr char kNamedPayload[] = "strata/operation";
constexpr int32_t kIdleRoundsMax = 1 << 20;  // counted no further

size_t MostOperations(const PlanSet& set) {
  size_t count = 0;
  for (const Plan& plan : set.plans) count = std::max(count, plan.ops.size());
  return count;
}

bool IsTask(OpCode code) {
  return code != OpCode::kCopy && code != OpCode::kRead && code != OpCode::kWrite;
}

}  // namespace

PlanStepper::PlanStepper(const PlanSet& set, const ExecutorOptions& options,
                         ExecutorLanes& lanes, const ArenaAddresses& arenas)
    : set_(set),
      runner_(*options.runner),
      clock_(*options.clock),
      lane_depth_(options.lane_depth),
      lanes_(lanes),
      arenas_(arenas),
      meter_(options.timeline_steps, MostOperations(set)) {
  for (const Plan& plan : set.plans) plan_indices_.emplace_back(set.trace, plan);
  for (const Link& link : set.links) {
    link_indices_.emplace_back(link,
                               set.plans[static_cast<size_t>(link.second)].ops.size());
  }
  for (Run& run : runs_) {
    run.stepper = this;
    run.ops.resize(MostOperations(set));
  }
}

void PlanStepper::Begin(int32_t plan, int32_t link) {
  STRATA_CHECK(MayBegin() && (link >= 0 || IsIdle()));
  now_ = clock_.Seconds();
  if (link < 0) meter_.Open(now_);
  Run& run = RunOf(++newest_);
  run.plan_index = plan;
  run.plan = &set_.plans[static_cast<size_t>(plan)];
  run.index = &plan_indices_[static_cast<size_t>(plan)];
  run.link = link < 0 ? nullptr : &link_indices_[static_cast<size_t>(link)];
  run.previous = link < 0 ? nullptr : &RunOf(newest_ - 1);
  run.ordinal = newest_;
  run.left = run.plan->ops.size();
  std::fill_n(run.ops.begin(), run.left, OpState{});
  meter_.BeginRun(newest_);
  const uint64_t oldest = link < 0 ? newest_ : newest_ - 1;
  for (LaneState& lane : lane_states_) {
    if (lane.submit.run < oldest) lane.submit = {oldest, 0};
    if (lane.retire.run < oldest) lane.retire = {oldest, 0};
  }
}

bool PlanStepper::HasResults() const {
  const Run& run = RunOf(newest_);
  return run.ops[run.plan->result_op].end_seconds != kNotEnded;
}

StepReport PlanStepper::Close() {
  for (int i = 0; i < kLaneCount; ++i) {
    const Lane lane = static_cast<Lane>(i);
    if (StateOf(lane).in_flight_count == 0) continue;
    const Begun begun = BeginOf(lane, Head(lane, StateOf(lane).retire));
    if (!begun.has_begun) continue;
    meter_.AddUnfinished(lane, begun.seconds, now_, begun.awaited);
  }
  const Plan& plan = *RunOf(newest_).plan;
  return meter_.Close(now_, plan.ops[plan.result_op].lane);
}

absl::Status PlanStepper::Step() {
  now_ = clock_.Seconds();
  bool has_moved = false;
  for (int i = 0; i < kLaneCount; ++i) {
    const Lane lane = static_cast<Lane>(i);
    if (StateOf(lane).in_flight_count == 0) continue;
    const absl::StatusOr<Ticket> completed = lanes_.Completed(lane);
    if (!completed.ok()) return DescribeError(lane, completed.status());
    has_moved |= Retire(lane, *completed);
  }
  // What one lane submits may be what another can be chained to.
  for (bool has_submitted = true; has_submitted; has_moved |= has_submitted) {
    has_submitted = false;
    for (int i = 0; i < kLaneCount; ++i) {
      while (TrySubmit(static_cast<Lane>(i))) has_submitted = true;
    }
  }
  idle_rounds_ = has_moved ? 0 : std::min(idle_rounds_ + 1, kIdleRoundsMax);
  if (!has_moved) clock_.Idle(idle_rounds_);
  return absl::OkStatus();
}

PlanStepper::OpRef PlanStepper::Head(Lane lane, Cursor& cursor) {
  while (true) {
    Run& run = RunOf(cursor.run);
    const auto& ops = run.index->lanes[static_cast<size_t>(lane)];
    if (cursor.next < ops.size()) return {&run, ops[cursor.next]};
    if (cursor.run == newest_) return {};
    cursor = {cursor.run + 1, 0};
  }
}

size_t PlanStepper::WaitCount(const OpRef& ref) {
  const size_t link_count =
      ref.run->link == nullptr ? 0 : ref.run->link->Waits(ref.op).size();
  return ref.get().wait_count + link_count;
}

PlanStepper::Awaited PlanStepper::WaitAt(const OpRef& ref, size_t index) {
  const size_t own_count = ref.get().wait_count;
  if (index < own_count) return {ref.run, ref.run->plan->Waits(ref.get())[index]};
  return {ref.run->previous, ref.run->link->Waits(ref.op)[index - own_count].after};
}

bool PlanStepper::Passes(Lane lane, const Awaited& awaited) {
  const OpState& state = awaited.run->ops[awaited.op];
  if (state.end_seconds != kNotEnded) return true;
  const Lane awaited_lane = awaited.run->plan->ops[awaited.op].lane;
  if (state.ticket == 0 || !lanes_.CanChain(lane, awaited_lane)) return false;
  lanes_.Chain(lane, awaited_lane, state.ticket);
  return true;
}

bool PlanStepper::TrySubmit(Lane lane) {
  LaneState& state = StateOf(lane);
  if (state.in_flight_count == lane_depth_) return false;
  const OpRef ref = Head(lane, state.submit);
  if (ref.run == nullptr) return false;
  for (const size_t count = WaitCount(ref); state.passed_waits < count;
       ++state.passed_waits) {
    if (!Passes(lane, WaitAt(ref, state.passed_waits))) return false;
  }
  ref.state() = {.ticket = Submit(ref), .submit_seconds = now_};
  ++state.submit.next;
  ++state.in_flight_count;
  state.passed_waits = 0;
  return true;
}

Ticket PlanStepper::Submit(const OpRef& ref) {
  const Op& op = ref.get();
  if (IsTask(op.code)) {
    return lanes_.Run(op.lane, {.run = &RunTask, .context = ref.run, .index = ref.op});
  }
  const Access& source = AccessOf(*ref.run->plan, op, Operand::kSource);
  const Access& target = AccessOf(*ref.run->plan, op, Operand::kTarget);
  switch (op.code) {
    case OpCode::kRead:
      return lanes_.Read(source.offset, arenas_.Of(target), source.size_bytes,
                         ref.run->index->names[ref.op]);
    case OpCode::kWrite:
      return lanes_.Write(target.offset, arenas_.Of(source), source.size_bytes,
                          ref.run->index->names[ref.op]);
    default:
      return lanes_.Copy(op.lane, arenas_.Of(target), arenas_.Of(source),
                         source.size_bytes);
  }
}

bool PlanStepper::Retire(Lane lane, Ticket completed) {
  LaneState& state = StateOf(lane);
  bool has_retired = false;
  while (state.in_flight_count > 0) {
    const OpRef ref = Head(lane, state.retire);
    if (ref.state().ticket > completed) break;
    const Begun begun = BeginOf(lane, ref);
    meter_.AddEnded(ref.run->ordinal,
                    {.op = ref.op,
                     .plan = ref.run->plan_index,
                     .lane = lane,
                     .begin_seconds = begun.seconds,
                     .end_seconds = now_},
                    ref.run->index->moved_bytes[ref.op], begun.awaited);
    ref.state().end_seconds = now_;
    state.end_seconds = now_;
    ++state.retire.next;
    --state.in_flight_count;
    --ref.run->left;
    has_retired = true;
  }
  return has_retired;
}

PlanStepper::Begun PlanStepper::BeginOf(Lane lane, const OpRef& ref) const {
  Begun begun = {.has_begun = true};
  for (size_t i = 0, count = WaitCount(ref); i < count; ++i) {
    const Awaited awaited = WaitAt(ref, i);
    double end_seconds = awaited.run->ops[awaited.op].end_seconds;
    if (end_seconds == kNotEnded) {  // or has ended, and is to be seen later
      begun.has_begun = false;
      end_seconds = now_;
    }
    if (i > 0 && end_seconds <= begun.awaited.end_seconds) continue;
    begun.awaited = {end_seconds, awaited.run->plan->ops[awaited.op].lane};
  }
  begun.seconds = std::max({ref.state().submit_seconds, begun.awaited.end_seconds,
                            lane_states_[static_cast<size_t>(lane)].end_seconds});
  return begun;
}

absl::Status PlanStepper::RunTask(void* context, uint32_t index, Stream& stream) {
  const Run& run = *static_cast<const Run*>(context);
  const Op& op = run.plan->ops[index];
  OpCall call = {.plan = *run.plan, .op = op, .address = {}, .run = run.ordinal};
  for (const Access& access : run.plan->Accesses(op)) {
    call.address[static_cast<size_t>(access.operand)] = run.stepper->arenas_.Of(access);
  }
  const absl::Status status = run.stepper->runner_.Run(call, stream);
  if (status.ok()) return status;
  absl::Status named = Annotate(
      status, absl::StrCat(ToString(run.plan->key), ", ", Name(op.lane), " lane, ",
                           Describe(run.stepper->set_.trace, *run.plan, op)));
  named.SetPayload(kNamedPayload, absl::Cord());
  return named;
}

absl::Status PlanStepper::DescribeError(Lane lane, const absl::Status& status) {
  if (status.GetPayload(kNamedPayload).has_value()) return status;
  const OpRef oldest = Head(lane, StateOf(lane).retire);
  std::string where =
      absl::StrCat(ToString(oldest.run->plan->key), ", ", Name(lane), " lane");
  if (RunsOneByOne(lane)) {  // a store's error names its transfer
    absl::StrAppend(&where, ", at or after ",
                    Describe(set_.trace, *oldest.run->plan, oldest.get()));
  }
  return Annotate(status, where);
}

}  // namespace strata
