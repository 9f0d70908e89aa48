/// tiertrain: trains a model through three tiers of memory.

#include <absl/strings/str_cat.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "model/explain_config.h"
#include "model/model_files.h"
#include "model/safetensors_writer.h"
#include "runtime/base/status.h"
#include "tools/cli/program.h"
#include "tools/tiertrain/generate.h"
#include "tools/tiertrain/loop.h"
#include "tools/tiertrain/report.h"
#include "tools/tiertrain/setup.h"
#include "tools/tiertrain/signals.h"

namespace strata {
namespace {

void PrintWarnings(const TrainingRun& run) {
  for (const ConfigNote& note : run.resolution.report.warnings) {
    std::fprintf(stderr, "warning: %s\n",
                 note.Format(run.resolution.deepspeed_name).c_str());
  }
  if (!run.checkpoint) return;
  for (const std::string& warning : run.checkpoint->warnings()) {
    std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
}

absl::Status PrintPlan(TrainingRun& run) {
  STRATA_ASSIGN_OR_RETURN(const TrainerOptions options, MakeTrainerOptions(run));
  STRATA_ASSIGN_OR_RETURN(const ModelShape model, MakeModel(run));
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          CreateKernels(run.device->kind(), options.kernels));
  const absl::StatusOr<PlannedStep> plan =
      PlanTraining(model, options, kernels->matmul_workspace_bytes());
  if (!plan.ok()) return NameBudgets(plan.status());
  std::printf("machine profile: %s\n", run.profile_source.c_str());
  std::fputs(ExplainPlan(*plan, run.parameters).c_str(), stdout);
  std::fputs(FormatNumerics(NumericsOf(model, *kernels)).c_str(), stdout);
  return absl::OkStatus();
}

// Logits of the first row of the held-out data, with the trained weights.
absl::Status WriteLogits(TrainingRun& run, const std::string& path) {
  const MicroBatchShape& shape = run.trainer->model().micro_batch;
  Batch batch(shape.sequences, shape.length);
  STRATA_RETURN_IF_ERROR(run.eval_data->Fill(0, 0, batch));
  const int64_t vocab = run.model_config.shape.vocab;
  std::vector<float> logits(static_cast<size_t>(shape.tokens() * vocab));
  const MicroBatch borrowed{batch.tokens, batch.targets, batch.positions,
                            batch.documents};
  STRATA_RETURN_IF_ERROR(
      run.trainer->Evaluate(std::span(&borrowed, 1), logits).status());
  int64_t used = 0;
  while (used < shape.length && batch.documents[static_cast<size_t>(used)] == 0) ++used;
  const std::vector<StoredTensorSpec> specs = {
      {"logits", StoredType::kF32, {used, vocab}},
      {"input_ids", StoredType::kI32, {used}}};
  STRATA_ASSIGN_OR_RETURN(const auto writer,
                          SafetensorsWriter::Create(path, specs, {}));
  STRATA_RETURN_IF_ERROR(writer->Append(
      "logits",
      std::as_bytes(std::span(logits).first(static_cast<size_t>(used * vocab)))));
  STRATA_RETURN_IF_ERROR(writer->Append(
      "input_ids",
      std::as_bytes(std::span(batch.tokens).first(static_cast<size_t>(used)))));
  return writer->Finish();
}

absl::Status SaveResults(TrainingRun& run, const RunSummary& summary) {
  if (run.command.output_directory) {
    STRATA_RETURN_IF_ERROR(ExportModel(*run.trainer, run.model_config,
                                       run.command.model_directory,
                                       *run.command.output_directory));
    STRATA_RETURN_IF_ERROR(WriteReport(run, summary, *run.command.output_directory));
  }
  if (run.command.timeline)
    STRATA_RETURN_IF_ERROR(WriteTimeline(run, summary, *run.command.timeline));
  if (run.command.logits_file && run.eval_data) {
    STRATA_RETURN_IF_ERROR(WriteLogits(run, *run.command.logits_file));
  }
  return absl::OkStatus();
}

int Train(TrainingRun& run, const std::atomic<bool>& interrupted) {
  if (absl::Status status = StartTrainer(run); !status.ok()) return cli::Refuse(status);
  if (absl::Status status = FinishNumerics(run); !status.ok())
    return cli::Refuse(status);
  if (absl::Status status = OpenCheckpointFolder(run); !status.ok())
    return cli::Refuse(status);
  std::printf("%s\n", run.train_data->Summary().c_str());
  if (run.sizes.dropped_rows > 0) {
    std::printf("%ld rows of an epoch are left out: they fill no step\n",
                static_cast<long>(run.sizes.dropped_rows));
  }
  std::printf("machine profile: %s\n", run.profile_source.c_str());
  std::printf("%s\n", ExplainPlan(run.trainer->plan(), run.parameters).c_str());
  std::printf("numerics profile %s\n", run.trainer->numerics().Hash().c_str());
  if (run.resume) {
    std::printf("resumed after step %ld from %s\n",
                static_cast<long>(run.resume->manifest.run.step),
                run.resume->directory.c_str());
  }
  std::fflush(stdout);
  RunSummary summary;
  if (absl::Status status = TrainSteps(run, interrupted, summary); !status.ok()) {
    return cli::Fail(status);
  }
  std::printf("\n%s", MemoryTable(run).c_str());
  if (summary.interrupted) {
    std::fprintf(stderr, "interrupted after step %ld; %s\n",
                 static_cast<long>(summary.state.step),
                 summary.last_checkpoint.empty()
                     ? "nothing is saved"
                     : absl::StrCat("saved in ", summary.last_checkpoint,
                                    ": go on with --resume_from_checkpoint latest")
                           .c_str());
    return cli::kInterrupted;
  }
  if (absl::Status status = SaveResults(run, summary); !status.ok())
    return cli::Fail(status);
  if (run.command.output_directory) {
    std::printf("saved in %s\n", run.command.output_directory->c_str());
  }
  return cli::kDone;
}

int Main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a full disk is an error, not the end
  const std::atomic<bool>& interrupted = CatchSignals();
  TrainingRun run;
  cli::Flags flags = TrainFlagTable(run.command);
  if (const auto exit_code = cli::ReadCommandLine(argc, argv, flags)) return *exit_code;
  if (absl::Status status = run.command.Finish(); !status.ok())
    return cli::Refuse(status);
  if (absl::Status status = PrepareRun(run); !status.ok()) return cli::Refuse(status);
  PrintWarnings(run);
  if (run.command.explain_config) {
    std::fputs(ExplainConfig(run.resolution).c_str(), stdout);
    return cli::kDone;
  }
  if (run.command.explain_plan) {
    absl::Status status = PrintPlan(run);
    return status.ok() ? cli::kDone : cli::Refuse(status);
  }
  std::vector<std::string> nvme_paths;
  for (const NvmePath& path : run.config.placement.nvme_paths) {
    nvme_paths.push_back(path.directory);
  }
  RemoveSwapAtSecondSignal(nvme_paths);
  return run.generation ? GenerateTexts(run, interrupted) : Train(run, interrupted);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc, argv); }
