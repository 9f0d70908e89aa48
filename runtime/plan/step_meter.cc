#include "runtime/plan/step_meter.h"

#include <algorithm>

namespace strata {

StepMeter::StepMeter(int32_t timeline_steps, size_t op_count_max)
    : runs_(static_cast<size_t>(timeline_steps)) {
  for (RunSpans& run : runs_) run.spans.reserve(op_count_max);
}

void StepMeter::Open(double now) {
  report_ = {};
  opened_seconds_ = now;
  covered_seconds_.fill(now);
}

void StepMeter::BeginRun(uint64_t run) {
  last_run_ = run;
  if (runs_.empty()) return;
  SpansOf(run).run = run;
  SpansOf(run).spans.clear();
}

void StepMeter::AddEnded(uint64_t run, const TimelineSpan& span, int64_t bytes,
                         const LastAwaited& awaited) {
  Cover(span.lane, span.begin_seconds, span.end_seconds, awaited);
  report_.lanes[static_cast<size_t>(span.lane)].bytes += bytes;
  if (!runs_.empty() && SpansOf(run).run == run) SpansOf(run).spans.push_back(span);
}

void StepMeter::AddUnfinished(Lane lane, double begin, double now,
                              const LastAwaited& awaited) {
  Cover(lane, begin, now, awaited);
}

StepReport StepMeter::Close(double now, Lane result_lane) {
  ChargeStall(covered_seconds_[static_cast<size_t>(Lane::kCompute)], now,
              {.end_seconds = now, .lane = result_lane});
  StepReport report = report_;
  report.seconds = now - opened_seconds_;
  Open(now);
  return report;
}

std::vector<TimelineSpan> StepMeter::Timeline() const {
  std::vector<TimelineSpan> timeline;
  for (size_t i = 1; i <= runs_.size(); ++i) {
    const RunSpans& run = runs_[(last_run_ + i) % runs_.size()];
    timeline.insert(timeline.end(), run.spans.begin(), run.spans.end());
  }
  return timeline;
}

void StepMeter::Cover(Lane lane, double begin, double end, const LastAwaited& awaited) {
  double& covered = covered_seconds_[static_cast<size_t>(lane)];
  begin = std::max(begin, covered);
  end = std::max(begin, end);
  if (lane == Lane::kCompute) ChargeStall(covered, begin, awaited);
  report_.lanes[static_cast<size_t>(lane)].busy_seconds += end - begin;
  covered = end;
}

void StepMeter::ChargeStall(double from, double to, const LastAwaited& awaited) {
  const double awaited_until = std::clamp(awaited.end_seconds, from, to);
  report_.lanes[static_cast<size_t>(awaited.lane)].stall_seconds +=
      awaited_until - from;
  report_.lanes[static_cast<size_t>(Lane::kCompute)].stall_seconds +=
      to - awaited_until;
}

}  // namespace strata
