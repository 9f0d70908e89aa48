/// One measured step, cut out of an executor's timeline, as a person looks at it: what
/// each lane did when, and what the compute lane waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/executor.h"
#include "runtime/plan/simulator.h"

namespace strata {

/// What an operation does, or what a transfer moves.
enum class SpanKind : uint8_t {
  kForward,
  kRecompute,
  kBackward,
  kUpdate,
  kReduce,
  kWeights,
  kState,
  kGradients,
  kActivations,
  kOther,
};
inline constexpr int kSpanKindCount = 10;
const char* Name(SpanKind kind);

/// Seconds count from the step's start.
struct ViewSpan {
  Lane lane;
  SpanKind kind;
  double begin_seconds, end_seconds;
  std::string label;  // "copy block.3/state[2]"
};

/// A gap of the compute lane, and whom its next operation waited for last.
struct ViewWait {
  Lane lane;  // the compute lane itself: for nobody
  double begin_seconds, end_seconds;
};

struct StepView {
  double seconds = 0;
  int32_t plan = 0;             // of the set
  std::vector<ViewSpan> spans;  // by lane in order of time; the tail of the step before
                                // is among them
  std::vector<ViewWait> waits;
  std::vector<OpSpan> ops;  // the time of each of the plan's operations
};

/// The last training step of `timeline`, preferably one that followed another training
/// step; nullopt if there is none with results.
std::optional<StepView> ViewLastStep(const PlanSet& set,
                                     const std::vector<TimelineSpan>& timeline);

}  // namespace strata
