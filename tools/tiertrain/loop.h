/// The training loop: data in, steps, evaluations, log and progress out.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tools/tiertrain/setup.h"

namespace strata {

struct Evaluation {
  int64_t step = 0;
  double loss = 0;  // mean over the held-out trained tokens
};

/// What the report tells of a run.
struct RunSummary {
  RunState state;      // where it is; of a resumed run, with what was before
  int64_t tokens = 0;  // of this process's steps
  double seconds = 0;  // the same
  double last_loss = 0;
  StepReport totals;        // sums over the steps but for the first
  int64_t timed_steps = 0;  // in totals
  std::vector<Evaluation> evaluations;
  std::vector<double> losses;          // of every step; NaN where it was skipped
  std::vector<TimelineSpan> timeline;  // of the last steps, without the evaluations
                                       // after them
  bool interrupted = false;
  std::string last_checkpoint;  // path; empty if none was saved
};

/// Trains until the last step, an error, or `interrupted` becomes true, and saves
/// checkpoints on the way and at its end.
absl::Status TrainSteps(TrainingRun& run, const std::atomic<bool>& interrupted,
                        RunSummary& summary);

}  // namespace strata
