#include "tools/tiertrain/loop.h"

#include <absl/strings/str_cat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/schedule.h"
#include "runtime/base/status.h"
#include "tools/tiertrain/step_log.h"

namespace strata {
namespace {

MicroBatch Borrow(const Batch& batch) {
  return {batch.tokens, batch.targets, batch.positions, batch.documents};
}

class Loop {
 public:
  Loop(TrainingRun& run, RunSummary& summary)
      : run_(run), summary_(summary), terminal_(isatty(STDOUT_FILENO) != 0) {
    const MicroBatchShape& shape = run.trainer->model().micro_batch;
    for (int32_t m = 0; m < run.trainer->model().micro_batches; ++m) {
      batches_.emplace_back(shape.sequences, shape.length);
    }
    if (run.resume) summary.state = run.resume->manifest.run;
    saved_step_ = first_step_ = summary.state.step;
    summary.losses.assign(static_cast<size_t>(first_step_),
                          std::numeric_limits<double>::quiet_NaN());
  }

  absl::Status Run(const std::atomic<bool>& interrupted) {
    if (run_.command.log_file) {
      STRATA_ASSIGN_OR_RETURN(
          log_, run_.resume ? StepLog::Continue(*run_.command.log_file, first_step_)
                            : StepLog::Create(*run_.command.log_file));
    }
    STRATA_RETURN_IF_ERROR(Evaluate(first_step_));
    for (int64_t step = first_step_ + 1; step <= run_.sizes.total_steps; ++step) {
      if (interrupted) {
        summary_.interrupted = true;
        break;
      }
      STRATA_RETURN_IF_ERROR(Step(step));
      if (step == run_.sizes.total_steps) {
        summary_.timeline = run_.trainer->executor().Timeline();
      }
      const auto every = run_.config.eval_steps;
      if (every && step % *every == 0 && step < run_.sizes.total_steps) {
        STRATA_RETURN_IF_ERROR(Evaluate(step));
      }
      if (run_.folder && step % *run_.config.save_steps == 0) {
        STRATA_RETURN_IF_ERROR(Save());
      }
    }
    if (run_.folder && summary_.state.step > saved_step_) {
      STRATA_RETURN_IF_ERROR(Save());
    }
    if (summary_.interrupted) return run_.trainer->Settle();
    if (summary_.state.step > first_step_) {
      STRATA_RETURN_IF_ERROR(Evaluate(summary_.state.step));
    }
    return run_.trainer->Settle();
  }

 private:
  absl::Status Step(int64_t step);
  absl::Status Evaluate(int64_t step);
  absl::Status Save();
  absl::Status CountSkips(const StepResult& result);
  void Progress(const StepRecord& record);
  void CountReport(const StepReport& report);

  TrainingRun& run_;
  RunSummary& summary_;
  const bool terminal_;
  std::vector<Batch> batches_;
  std::unique_ptr<StepLog> log_;
  int64_t first_step_ = 0;  // the one before this process's first
  int64_t saved_step_ = 0;
};

absl::Status Loop::Step(int64_t step) {
  const StepSizes& sizes = run_.sizes;
  const int64_t epoch = (step - 1) / sizes.steps_per_epoch;
  const int64_t in_epoch = (step - 1) % sizes.steps_per_epoch;
  const bool last = in_epoch + 1 == sizes.steps_per_epoch;
  const int64_t count = last ? sizes.last_micro_batches : sizes.micro_batches;
  int64_t row = in_epoch * sizes.rows * sizes.micro_batches;
  std::vector<MicroBatch> micro_batches;
  StepRecord record{.step = step};
  for (int64_t m = 0; m < count; ++m, row += sizes.rows) {
    Batch& batch = batches_[static_cast<size_t>(m)];
    STRATA_RETURN_IF_ERROR(run_.train_data->Fill(epoch, row, batch));
    record.tokens += batch.used_tokens;
    micro_batches.push_back(Borrow(batch));
  }
  record.learning_rate =
      LearningRate(run_.config.schedule, run_.trainer->applied_steps() + 1);
  STRATA_ASSIGN_OR_RETURN(const StepResult result,
                          run_.trainer->Step(micro_batches, record.learning_rate));
  RunState& state = summary_.state;
  state.step = step;
  state.skipped_steps += result.skipped;
  state.clipped_steps += result.clipped;
  state.tokens += record.tokens;
  state.trained_tokens += result.trained_tokens;
  summary_.tokens += record.tokens;
  summary_.seconds += result.report.seconds;
  if (!result.skipped) summary_.last_loss = result.loss;
  summary_.losses.push_back(result.skipped ? std::numeric_limits<double>::quiet_NaN()
                                           : result.loss);
  CountReport(result.report);
  record.epoch = static_cast<double>(step) / static_cast<double>(sizes.steps_per_epoch);
  record.trained_tokens_total = state.trained_tokens;
  record.result = result;
  if (log_) STRATA_RETURN_IF_ERROR(log_->Write(record, run_));
  if (step % run_.config.logging_steps == 0 || step == sizes.total_steps)
    Progress(record);
  return CountSkips(result);
}

absl::Status Loop::CountSkips(const StepResult& result) {
  RunState& state = summary_.state;
  const int64_t step = state.step;
  if (result.skipped && result.trained_tokens == 0) {
    std::fprintf(stderr, "warning: step %ld has no trained token and was skipped\n",
                 static_cast<long>(step));
  } else if (result.skipped) {
    std::fprintf(stderr,
                 "warning: the gradient of step %ld is not finite; it was skipped\n",
                 static_cast<long>(step));
  }
  state.skipped_in_a_row = result.skipped ? state.skipped_in_a_row + 1 : 0;
  if (state.skipped_in_a_row >= 20) {
    return WithMend(absl::DataLossError(absl::StrCat(
                        "steps ", step - state.skipped_in_a_row + 1, " to ", step,
                        " were all skipped: ",
                        result.trained_tokens == 0 ? "no token in them is trained"
                                                   : "their gradients are not finite")),
                    result.trained_tokens == 0 ? "look at the labels of the data"
                                               : "lower the learning rate");
  }
  return absl::OkStatus();
}

absl::Status Loop::Save() {
  STRATA_ASSIGN_OR_RETURN(summary_.last_checkpoint,
                          SaveRunCheckpoint(run_, summary_.state));
  saved_step_ = summary_.state.step;
  std::printf("%ssaved %s\n", terminal_ ? "\r\033[K" : "",
              summary_.last_checkpoint.c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

void Loop::CountReport(const StepReport& report) {
  const bool is_first = summary_.state.step == first_step_ + 1;
  if (is_first && run_.sizes.total_steps > first_step_ + 1) return;  // warms up
  ++summary_.timed_steps;
  summary_.totals.seconds += report.seconds;
  for (int lane = 0; lane < kLaneCount; ++lane) {
    summary_.totals.lanes[lane].busy_seconds += report.lanes[lane].busy_seconds;
    summary_.totals.lanes[lane].stall_seconds += report.lanes[lane].stall_seconds;
    summary_.totals.lanes[lane].bytes += report.lanes[lane].bytes;
  }
}

void Loop::Progress(const StepRecord& record) {
  const StepReport& report = record.result.report;
  int busiest = 0;
  for (int lane = 1; lane < kLaneCount; ++lane) {
    if (report.lanes[lane].busy_seconds > report.lanes[busiest].busy_seconds)
      busiest = lane;
  }
  const double rate =
      report.seconds > 0 ? static_cast<double>(record.tokens) / report.seconds : 0;
  const double left = summary_.seconds /
                      static_cast<double>(record.step - first_step_) *
                      static_cast<double>(run_.sizes.total_steps - record.step);
  std::printf(
      "%sstep %ld/%ld  loss %.4f  norm %.3f%s  lr %.3g  %.0f tokens/s  busiest %s %.0f "
      "%%"
      "  %.0f s left%s",
      terminal_ ? "\r\033[K" : "", static_cast<long>(record.step),
      static_cast<long>(run_.sizes.total_steps), record.result.loss,
      record.result.grad_norm,
      record.result.skipped   ? " skipped"
      : record.result.clipped ? " clipped"
                              : "",
      record.learning_rate, rate, Name(static_cast<Lane>(busiest)),
      report.seconds > 0 ? 100 * report.lanes[busiest].busy_seconds / report.seconds
                         : 0,
      left, terminal_ && record.step < run_.sizes.total_steps ? "" : "\n");
  std::fflush(stdout);
}

absl::Status Loop::Evaluate(int64_t step) {
  if (!run_.eval_data) return absl::OkStatus();
  double sum = 0;
  int64_t trained = 0, row = 0;
  const int64_t rows = run_.eval_data->row_count();
  while (row < rows) {
    std::vector<MicroBatch> micro_batches;
    for (Batch& batch : batches_) {
      if (row >= rows) break;
      STRATA_RETURN_IF_ERROR(run_.eval_data->Fill(0, row, batch));
      trained += batch.trained_tokens;
      micro_batches.push_back(Borrow(batch));
      row += batch.rows();
    }
    STRATA_ASSIGN_OR_RETURN(const double loss, run_.trainer->Evaluate(micro_batches));
    sum += loss;
  }
  summary_.evaluations.push_back({step, sum / static_cast<double>(trained)});
  std::printf("%sheld-out loss %.4f at step %ld (%ld tokens)\n",
              terminal_ ? "\r\033[K" : "", summary_.evaluations.back().loss,
              static_cast<long>(step), static_cast<long>(trained));
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

absl::Status TrainSteps(TrainingRun& run, const std::atomic<bool>& interrupted,
                        RunSummary& summary) {
  return Loop(run, summary).Run(interrupted);
}

}  // namespace strata
