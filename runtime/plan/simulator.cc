#include "runtime/plan/simulator.h"

#include <algorithm>
#include <limits>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr size_t At(Lane lane) { return static_cast<size_t>(lane); }

/// All operations of a sequence of plans, numbered through, with what each waits for.
class Schedule {
 public:
  Schedule(const PlanSet& set, std::span<const int32_t> sequence) : set_(set) {
    for (const int32_t index : sequence) {
      plans_.push_back(index);
      first_op_.push_back(first_op_.back() +
                          static_cast<uint32_t>(set.plans[index].ops.size()));
    }
    for (size_t run = 0; run < plans_.size(); ++run) AddRun(run);
    CountDependents();
  }

  size_t run_count() const { return plans_.size(); }
  uint32_t op_count() const { return first_op_.back(); }
  const Plan& plan(size_t run) const { return set_.plans[plans_[run]]; }
  uint32_t first_op(size_t run) const { return first_op_[run]; }
  size_t run_of(uint32_t op) const { return run_of_[op]; }
  const Op& op(uint32_t op) const {
    return plan(run_of_[op]).ops[op - first_op_[run_of_[op]]];
  }
  std::span<const uint32_t> waits(uint32_t op) const {
    return {waits_.data() + first_wait_[op], first_wait_[op + 1] - first_wait_[op]};
  }
  std::span<const uint32_t> dependents(uint32_t op) const {
    return {dependents_.data() + first_dependent_[op],
            first_dependent_[op + 1] - first_dependent_[op]};
  }

 private:
  void AddRun(size_t run) {
    const Plan& plan = this->plan(run);
    const Link* link = nullptr;
    if (run > 0) {
      const int32_t index = set_.FindLink(plans_[run - 1], plans_[run]);
      STRATA_CHECK(index >= 0);
      link = &set_.links[index];
    }
    size_t next = 0;
    for (uint32_t i = 0; i < plan.ops.size(); ++i) {
      run_of_.push_back(static_cast<uint32_t>(run));
      for (const uint32_t wait : plan.Waits(plan.ops[i])) {
        waits_.push_back(first_op_[run] + wait);
      }
      for (; link != nullptr && next < link->waits.size() && link->waits[next].op == i;
           ++next) {
        waits_.push_back(first_op_[run - 1] + link->waits[next].after);
      }
      first_wait_.push_back(static_cast<uint32_t>(waits_.size()));
    }
  }

  void CountDependents() {
    first_dependent_.assign(op_count() + 1, 0);
    for (const uint32_t wait : waits_) ++first_dependent_[wait + 1];
    for (uint32_t op = 0; op < op_count(); ++op) {
      first_dependent_[op + 1] += first_dependent_[op];
    }
    dependents_.resize(waits_.size());
    std::vector<uint32_t> next(first_dependent_.begin(), first_dependent_.end() - 1);
    for (uint32_t op = 0; op < op_count(); ++op) {
      for (const uint32_t wait : waits(op)) dependents_[next[wait]++] = op;
    }
  }

  const PlanSet& set_;
  std::vector<int32_t> plans_;         // by run: index into the set
  std::vector<uint32_t> first_op_{0};  // by run
  std::vector<uint32_t> run_of_, waits_, first_wait_{0};
  std::vector<uint32_t> dependents_, first_dependent_;
};

/// Time as a fluid: between two events every working lane has a constant rate.
class FluidSimulation {
 public:
  FluidSimulation(const PlanSet& set, const Schedule& schedule,
                  const MachineProfile& profile)
      : set_(set),
        schedule_(schedule),
        profile_(profile),
        spans_(schedule.op_count()),
        waiting_(schedule.op_count()),
        open_ops_(schedule.run_count()),
        ends_(schedule.run_count(), 0) {
    for (uint32_t op = 0; op < schedule.op_count(); ++op) {
      waiting_[op] = static_cast<uint32_t>(schedule.waits(op).size());
      lanes_[At(schedule.op(op).lane)].queue.push_back(op);
      ++open_ops_[schedule.run_of(op)];
    }
    rates_known_.fill(false);
  }

  void Run() {
    started_runs_ = 1;
    while (completed_ < schedule_.op_count()) {
      StartLanes();
      Advance();
    }
  }

  const std::vector<OpSpan>& spans() const { return spans_; }
  double end_of_run(size_t run) const { return ends_[run]; }
  const std::vector<uint32_t>& queue(Lane lane) const { return lanes_[At(lane)].queue; }

 private:
  static constexpr uint32_t kIdle = ~0u;

  struct LaneState {
    std::vector<uint32_t> queue;  // all its operations, in order
    size_t next = 0;              // position in it
    uint32_t op = kIdle;          // that is under way
    double overhead = 0;          // seconds of it that are left
    double work = 0;              // that is left
    bool works() const { return op != kIdle && overhead <= 0; }
  };

  void StartLanes() {
    for (LaneState& lane : lanes_) {
      if (lane.op != kIdle || lane.next == lane.queue.size()) continue;
      const uint32_t op = lane.queue[lane.next];
      const size_t run = schedule_.run_of(op);
      if (waiting_[op] > 0 || run >= started_runs_) continue;
      const OpCost cost = CostOf(set_, schedule_.plan(run), schedule_.op(op), profile_);
      ++lane.next;
      lane.op = op;
      lane.overhead = cost.overhead_seconds;
      lane.work = cost.work;
      spans_[op].begin_seconds = now_;
    }
  }

  // Moves to the next instant at which some lane ends its overhead or its work.
  void Advance() {
    std::array<bool, kLaneCount> active;
    for (size_t i = 0; i < kLaneCount; ++i) active[i] = lanes_[i].works();
    const std::array<double, kLaneCount>& rates = Rates(active);
    std::array<double, kLaneCount> left;
    double step = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < kLaneCount; ++i) {
      const LaneState& lane = lanes_[i];
      if (lane.op == kIdle) continue;
      left[i] = !active[i] ? lane.overhead : lane.work <= 0 ? 0 : lane.work / rates[i];
      step = std::min(step, left[i]);
    }
    STRATA_CHECK(step < std::numeric_limits<double>::infinity());  // else: a deadlock
    now_ += step;
    // Ends that differ by rounding only are one event.
    const double slack = 1e-12 * now_;
    for (size_t i = 0; i < kLaneCount; ++i) {
      LaneState& lane = lanes_[i];
      if (lane.op == kIdle) continue;
      if (left[i] > step + slack) {
        active[i] ? lane.work -= rates[i]* step : lane.overhead -= step;
      } else if (active[i] || lane.work <= 0) {
        Complete(lane);
      } else {
        lane.overhead = 0;
      }
    }
  }

  const std::array<double, kLaneCount>& Rates(
      const std::array<bool, kLaneCount>& active) {
    size_t mask = 0;
    for (size_t i = 0; i < kLaneCount; ++i) mask |= size_t{active[i]} << i;
    if (!rates_known_[mask]) {
      rates_[mask] = LaneRates(profile_, active);
      rates_known_[mask] = true;
    }
    return rates_[mask];
  }

  void Complete(LaneState& lane) {
    const uint32_t op = lane.op;
    lane.op = kIdle;
    spans_[op].end_seconds = now_;
    ++completed_;
    for (const uint32_t dependent : schedule_.dependents(op)) --waiting_[dependent];
    const size_t run = schedule_.run_of(op);
    --open_ops_[run];
    if (op == schedule_.first_op(run) + schedule_.plan(run).result_op) {
      ends_[run] = now_;
      ended_runs_ = run + 1;
    }
    // The next run starts when this one has ended and the one before is complete.
    while (started_runs_ == ended_runs_ &&
           (started_runs_ < 2 || open_ops_[started_runs_ - 2] == 0)) {
      ++started_runs_;
    }
  }

  const PlanSet& set_;
  const Schedule& schedule_;
  const MachineProfile& profile_;
  std::array<LaneState, kLaneCount> lanes_;
  std::vector<OpSpan> spans_;
  std::vector<uint32_t> waiting_;   // by operation: waits that are not complete
  std::vector<uint32_t> open_ops_;  // by run
  std::vector<double> ends_;        // by run
  size_t started_runs_ = 0, ended_runs_ = 0;
  uint32_t completed_ = 0;
  double now_ = 0;
  std::array<std::array<double, kLaneCount>, 1 << kLaneCount> rates_;
  std::array<bool, 1 << kLaneCount> rates_known_;
};

/// What happened in a window of time.
class WindowReport {
 public:
  WindowReport(const Schedule& schedule, const FluidSimulation& simulation,
               double begin, double end)
      : schedule_(schedule), simulation_(simulation), begin_(begin), end_(end) {
    forecast_.seconds = end - begin;
  }

  Forecast Report() {
    for (uint32_t op = 0; op < schedule_.op_count(); ++op) AddOp(op);
    AddStalls();
    const size_t last = schedule_.run_count() - 1;
    for (uint32_t op = schedule_.first_op(last); op < schedule_.op_count(); ++op) {
      const OpSpan& span = simulation_.spans()[op];
      forecast_.spans.push_back(
          {span.begin_seconds - begin_, span.end_seconds - begin_});
    }
    return std::move(forecast_);
  }

 private:
  LaneForecast& lane(Lane lane) { return forecast_.lanes[At(lane)]; }
  double Clip(double time) const { return std::clamp(time, begin_, end_); }

  void AddOp(uint32_t op) {
    const OpSpan& span = simulation_.spans()[op];
    const Op& o = schedule_.op(op);
    lane(o.lane).busy_seconds += Clip(span.end_seconds) - Clip(span.begin_seconds);
    const bool moves =
        o.code == OpCode::kCopy || o.code == OpCode::kRead || o.code == OpCode::kWrite;
    if (moves && span.end_seconds > begin_ && span.end_seconds <= end_) {
      lane(o.lane).bytes +=
          schedule_.plan(schedule_.run_of(op)).Accesses(o).front().size_bytes;
    }
  }

  // Each gap of the compute lane is the fault of whom its next operation waited for
  // last.
  void AddStalls() {
    double idle_since = begin_;
    for (const uint32_t op : simulation_.queue(Lane::kCompute)) {
      const OpSpan& span = simulation_.spans()[op];
      if (span.begin_seconds >= end_) break;
      if (span.begin_seconds > idle_since) AddGap(op, idle_since, span.begin_seconds);
      idle_since = std::max(idle_since, span.end_seconds);
    }
    if (idle_since < end_) {
      const size_t last = schedule_.run_count() - 1;
      const Plan& plan = schedule_.plan(last);
      lane(plan.ops[plan.result_op].lane).stall_seconds += end_ - idle_since;
    }
  }

  void AddGap(uint32_t op, double begin, double end) {
    Lane charged = Lane::kCompute;
    double latest = begin;
    for (const uint32_t wait : schedule_.waits(op)) {
      const double wait_end = simulation_.spans()[wait].end_seconds;
      if (wait_end <= latest) continue;
      latest = wait_end;
      charged = schedule_.op(wait).lane;
    }
    lane(charged).stall_seconds += latest - begin;
    lane(Lane::kCompute).stall_seconds += end - latest;
  }

  const Schedule& schedule_;
  const FluidSimulation& simulation_;
  const double begin_, end_;
  Forecast forecast_;
};

}  // namespace

Forecast Simulate(const PlanSet& set, std::span<const int32_t> sequence,
                  const MachineProfile& profile) {
  STRATA_CHECK(!sequence.empty());
  const Schedule schedule(set, sequence);
  FluidSimulation simulation(set, schedule, profile);
  simulation.Run();
  const size_t last = sequence.size() - 1;
  const double begin = last == 0 ? 0 : simulation.end_of_run(last - 1);
  return WindowReport(schedule, simulation, begin, simulation.end_of_run(last))
      .Report();
}

double FloorSeconds(const PlanSet& set, const Plan& plan,
                    const MachineProfile& profile) {
  std::array<double, kLaneCount> work{};
  double host_bytes = 0;
  for (const Op& op : plan.ops) {
    const OpCost cost = CostOf(set, plan, op, profile);
    work[At(op.lane)] += cost.work;
    host_bytes += cost.host_bytes;
  }
  const auto lane_work = [&work](Lane lane) { return work[At(lane)]; };
  const double in = lane_work(Lane::kHostToDevice);
  const double out = lane_work(Lane::kDeviceToHost);
  const double both = std::min(in, out);
  const double link =
      std::max({2 * both / profile.both_directions, both / profile.host_to_device,
                both / profile.device_to_host}) +
      (in - both) / profile.host_to_device + (out - both) / profile.device_to_host;
  const double reads = lane_work(Lane::kNvmeRead) / profile.nvme_read;
  const double writes = lane_work(Lane::kNvmeWrite) / profile.nvme_write;
  const double drive =
      std::max({reads, writes, (reads + writes) / std::max(1.0, DriveShares(profile))});
  return std::max({lane_work(Lane::kCompute) / profile.compute_flops, link,
                   host_bytes / profile.host_memory, drive});
}

}  // namespace strata
