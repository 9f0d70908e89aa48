#include "tools/tiertrain/step_view.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <span>

namespace strata {
namespace {

/// What one run of a plan left in the timeline.
struct Run {
  int32_t plan = 0;
  std::span<const TimelineSpan> spans;
  std::vector<const TimelineSpan*> of_op;  // null: not ended yet
  double end_seconds = 0;                  // of the results; 0: none yet
};

// Within a run an operation comes once; a run of another plan is another run.
std::vector<Run> SplitRuns(const PlanSet& set,
                           const std::vector<TimelineSpan>& timeline) {
  std::vector<Run> runs;
  size_t first = 0;
  for (size_t i = 0; i < timeline.size(); ++i) {
    const TimelineSpan& span = timeline[i];
    if (runs.empty() || runs.back().plan != span.plan ||
        runs.back().of_op[span.op] != nullptr) {
      first = i;
      const size_t ops = set.plans[static_cast<size_t>(span.plan)].ops.size();
      runs.push_back(
          {.plan = span.plan, .of_op = std::vector<const TimelineSpan*>(ops, nullptr)});
    }
    Run& run = runs.back();
    run.spans = std::span(timeline).subspan(first, i + 1 - first);
    run.of_op[span.op] = &span;
    if (span.op == set.plans[static_cast<size_t>(span.plan)].result_op) {
      run.end_seconds = span.end_seconds;
    }
  }
  return runs;
}

bool Trains(const PlanSet& set, const Run& run) {
  return set.plans[static_cast<size_t>(run.plan)].key.kind == PlanKind::kTrain &&
         run.end_seconds > 0;
}

SpanKind KindOfMove(const Plan& plan, const Op& op) {
  for (const Access& access : plan.Accesses(op)) {
    switch (access.value.role) {
      case Role::kWeight:
      case Role::kSpeculated:
        return SpanKind::kWeights;
      case Role::kState:
        return SpanKind::kState;
      case Role::kGradient:
      case Role::kAccumulator:
      case Role::kSharedAccumulator:
        return SpanKind::kGradients;
      case Role::kActivation:
      case Role::kActivationGradient:
      case Role::kSaved:
        return SpanKind::kActivations;
      default:
        break;
    }
  }
  return SpanKind::kOther;
}

SpanKind KindOf(const Plan& plan, const Op& op) {
  switch (op.code) {
    case OpCode::kForward:
      return op.recompute ? SpanKind::kRecompute : SpanKind::kForward;
    case OpCode::kBackward:
      return SpanKind::kBackward;
    case OpCode::kUpdate:
    case OpCode::kSpeculate:
      return SpanKind::kUpdate;
    case OpCode::kZero:
    case OpCode::kReduce:
      return SpanKind::kReduce;
    default:
      return KindOfMove(plan, op);
  }
}

class Viewer {
 public:
  Viewer(const PlanSet& set, const Run& run, double begin) : set_(set), begin_(begin) {
    view_.plan = run.plan;
    view_.seconds = run.end_seconds - begin;
  }

  void Add(const Run& run) {
    const Plan& plan = set_.plans[static_cast<size_t>(run.plan)];
    for (const TimelineSpan& span : run.spans) {
      const double from = Within(span.begin_seconds), to = Within(span.end_seconds);
      if (from >= to) continue;
      const Op& op = plan.ops[span.op];
      view_.spans.push_back(
          {span.lane, KindOf(plan, op), from, to,
           absl::StrCat(Name(op.code), " ", Describe(set_.trace, plan, op))});
    }
  }

  void AddOpTimes(const Run& run) {
    for (const TimelineSpan* span : run.of_op) {
      // What has not ended yet is under way at the end.
      view_.ops.push_back(span == nullptr ? OpSpan{view_.seconds, view_.seconds}
                                          : OpSpan{span->begin_seconds - begin_,
                                                   span->end_seconds - begin_});
    }
  }

  void AddWaits(const Run& run) {
    const Plan& plan = set_.plans[static_cast<size_t>(run.plan)];
    double idle_since = 0;
    for (size_t i = 0; i < plan.ops.size(); ++i) {
      if (plan.ops[i].lane != Lane::kCompute || run.of_op[i] == nullptr) continue;
      AddWait(run, plan, plan.ops[i], idle_since, Within(run.of_op[i]->begin_seconds));
      idle_since = std::max(idle_since, Within(run.of_op[i]->end_seconds));
    }
    if (idle_since < view_.seconds) {
      view_.waits.push_back({plan.ops[plan.result_op].lane, idle_since, view_.seconds});
    }
  }

  StepView Finish() {
    std::stable_sort(view_.spans.begin(), view_.spans.end(),
                     [](const ViewSpan& a, const ViewSpan& b) {
                       return a.lane != b.lane ? a.lane < b.lane
                                               : a.begin_seconds < b.begin_seconds;
                     });
    return std::move(view_);
  }

 private:
  double Within(double seconds) const {
    return std::clamp(seconds - begin_, 0.0, view_.seconds);
  }

  void AddWait(const Run& run, const Plan& plan, const Op& next, double from,
               double to) {
    if (from >= to) return;
    Lane lane = Lane::kCompute;
    double awaited = from;
    for (const uint32_t wait : plan.Waits(next)) {
      if (run.of_op[wait] == nullptr) continue;
      const double end = Within(run.of_op[wait]->end_seconds);
      if (end <= awaited) continue;
      awaited = end;
      lane = plan.ops[wait].lane;
    }
    if (awaited > from) view_.waits.push_back({lane, from, std::min(awaited, to)});
    if (awaited < to) view_.waits.push_back({Lane::kCompute, awaited, to});
  }

  const PlanSet& set_;
  const double begin_;
  StepView view_;
};

}  // namespace

const char* Name(SpanKind kind) {
  static constexpr std::array<const char*, kSpanKindCount> kNames = {
      "forward", "recompute", "backward",  "update",      "gradient sums",
      "weights", "state",     "gradients", "activations", "other"};
  return kNames[static_cast<size_t>(kind)];
}

std::optional<StepView> ViewLastStep(const PlanSet& set,
                                     const std::vector<TimelineSpan>& timeline) {
  const std::vector<Run> runs = SplitRuns(set, timeline);
  size_t chosen = runs.size();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!Trains(set, runs[i])) continue;
    const bool follows = i > 0 && Trains(set, runs[i - 1]);
    const bool have_better =
        chosen > 0 && chosen < runs.size() && Trains(set, runs[chosen - 1]) && !follows;
    if (!have_better) chosen = i;
  }
  if (chosen == runs.size()) return std::nullopt;
  const Run& run = runs[chosen];
  const bool has_before = chosen > 0 && runs[chosen - 1].end_seconds > 0;
  double begin = run.spans.front().begin_seconds;
  for (const TimelineSpan& span : run.spans) {
    begin = std::min(begin, span.begin_seconds);
  }
  if (has_before) begin = runs[chosen - 1].end_seconds;
  Viewer viewer(set, run, begin);
  if (has_before) viewer.Add(runs[chosen - 1]);
  viewer.Add(run);
  viewer.AddOpTimes(run);
  viewer.AddWaits(run);
  return viewer.Finish();
}

}  // namespace strata
