#include "tools/tiertrain/resume.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "model/checkpoint_folder.h"
#include "model/checkpoint_state.h"
#include "model/model_files.h"
#include "model/text_file.h"
#include "runtime/base/status.h"
#include "tools/tiertrain/setup.h"

namespace strata {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kLatest = "latest";

/// What gives a step number its place in the data.
Json DataJson(const TrainingRun& run) {
  const BatchConfig& batch = run.config.batch;
  Json data = {{"micro_batch_rows", batch.micro_batch_size},
               {"gradient_accumulation_steps", batch.accumulation_steps},
               {"seed", run.config.seed}};
  if (run.command.synthetic_data) {
    data["synthetic"] = true;  // as many rows as steps ask for
    return data;
  }
  const DatasetCounters& counters = run.train_data->counters();
  data["drop_last"] = batch.drop_last;
  data["shuffle"] = run.config.shuffle;
  data["rows"] = run.train_data->row_count();
  data["samples"] = counters.used;
  data["tokens"] = counters.tokens;
  data["trained_tokens"] = counters.trained_tokens;
  return data;
}

/// What may change on the way, and is said if it does.
Json SettingsJson(const TrainingRun& run) {
  const OptimizerConfig& optimizer = run.config.optimizer;
  const Schedule& schedule = run.config.schedule;
  Json settings = {{"learning_rate", optimizer.learning_rate},
                   {"adam_beta1", optimizer.beta1},
                   {"adam_beta2", optimizer.beta2},
                   {"adam_epsilon", optimizer.eps},
                   {"weight_decay", optimizer.weight_decay},
                   {"decoupled_decay", optimizer.decoupled_decay},
                   {"decay_norms", optimizer.decay_norms},
                   {"max_grad_norm", optimizer.max_grad_norm},
                   {"lr_scheduler_type", Name(schedule.type)}};
  const bool is_constant = schedule.type == ScheduleType::kConstant;
  if (!is_constant) settings["warmup_steps"] = schedule.warmup_steps;
  if (!is_constant && schedule.type != ScheduleType::kConstantWithWarmup) {
    settings["schedule_total_steps"] = schedule.total_steps;
  }
  return settings;
}

std::vector<std::string> Changes(const Json& before, const Json& now) {
  std::vector<std::string> changes;
  for (const auto& [key, value] : now.items()) {
    const auto old = before.find(key);
    if (old != before.end() && *old == value) continue;
    changes.push_back(absl::StrCat(key, " is ", value.dump(), " and was ",
                                   old == before.end() ? "not set" : old->dump()));
  }
  return changes;
}

Json SectionOf(const RunState& state, const char* key) {
  const Json application =
      Json::parse(state.application, nullptr, /*allow_exceptions=*/false);
  const auto section =
      application.is_object() ? application.find(key) : application.end();
  return application.is_object() && section != application.end() && section->is_object()
             ? *section
             : Json::object();
}

/// The model of the checkpoint's config.json, if it has one.
absl::Status CheckModel(const TrainingRun& run) {
  const auto saved = LoadHfConfig(run.resume->directory);
  if (absl::IsNotFound(saved.status())) return absl::OkStatus();
  STRATA_RETURN_IF_ERROR(saved.status());
  TransformerConfig there = saved->shape, here = run.model_config.shape;
  there.dtype = here.dtype;  // in which it was stored; the numerics profile says more
  if (there == here) return absl::OkStatus();
  return WithMend(absl::InvalidArgumentError(absl::StrCat(
                      "--resume_from_checkpoint ", run.resume->directory,
                      ": its config.json describes another model than that in ",
                      run.command.model_directory)),
                  "give --model_name_or_path of the model that was trained");
}

bool Saves(const TrainingRun& run) { return run.config.save_steps.has_value(); }

void WarnOfOthers(const TrainingRun& run) {
  std::vector<std::string> others;
  for (const std::string& path : ListCheckpoints(run.folder->directory())) {
    const auto manifest = ReadManifest(path);
    if (manifest.ok() && manifest->run.run_id == run.run_id) continue;
    others.push_back(fs::path(path).filename());
  }
  if (others.empty()) return;
  std::fprintf(stderr,
               "warning: %s holds %s, not of this run: --save_total_limit neither "
               "counts nor removes them, and a checkpoint of the same step replaces "
               "them\n",
               run.folder->directory().c_str(), absl::StrJoin(others, ", ").c_str());
}

void WarnOfRoom(const TrainingRun& run) {
  struct statvfs drive {};
  if (statvfs(run.folder->directory().c_str(), &drive) != 0) return;
  const int64_t free =
      static_cast<int64_t>(drive.f_bavail) * static_cast<int64_t>(drive.f_frsize);
  const int64_t needed = TensorBytes(run.trainer->model());
  if (free >= needed) return;
  std::fprintf(stderr,
               "warning: a checkpoint takes %ld bytes and %s has %ld free: saving "
               "will fail unless room is made\n",
               static_cast<long>(needed), run.folder->directory().c_str(),
               static_cast<long>(free));
}

}  // namespace

absl::Status FindResumePoint(TrainingRun& run) {
  run.run_id = MakeRunId();
  if (!run.command.resume_from_checkpoint) return absl::OkStatus();
  const std::string& wanted = *run.command.resume_from_checkpoint;
  ResumePoint point;
  if (wanted != kLatest) {
    absl::StatusOr<CheckpointManifest> manifest = VerifyCheckpoint(wanted);
    if (!manifest.ok()) {
      return WithMend(Annotate(manifest.status(), "--resume_from_checkpoint"),
                      "name a complete checkpoint, or say latest");
    }
    point = {wanted, *std::move(manifest)};
  } else {
    absl::StatusOr<FoundCheckpoint> found =
        FindLatestCheckpoint(*run.command.output_directory);
    if (!found.ok()) {
      return WithMend(Annotate(found.status(), "--resume_from_checkpoint latest"),
                      "check --output_dir, or start without --resume_from_checkpoint");
    }
    for (const std::string& line : found->passed_over) {
      std::fprintf(stderr, "warning: %s\n", line.c_str());
    }
    point = {found->directory, std::move(found->manifest)};
  }
  run.run_id = point.manifest.run.run_id;
  run.resume = std::move(point);
  return absl::OkStatus();
}

absl::Status CheckResumePoint(const TrainingRun& run) {
  if (!run.resume) return absl::OkStatus();
  STRATA_RETURN_IF_ERROR(CheckModel(run));
  const RunState& state = run.resume->manifest.run;
  if (state.step > run.sizes.total_steps) {
    return WithMend(
        absl::InvalidArgumentError(absl::StrCat(
            "--resume_from_checkpoint ", run.resume->directory, " is after step ",
            state.step, ", and the run ends after step ", run.sizes.total_steps)),
        "raise --max_steps, which is the total");
  }
  const std::vector<std::string> data =
      Changes(SectionOf(state, "data"), DataJson(run));
  if (!data.empty()) {
    return WithMend(
        absl::InvalidArgumentError(absl::StrCat(
            "--resume_from_checkpoint ", run.resume->directory,
            ": its place in the data, after step ", state.step,
            ", means nothing with other data or batches: ", absl::StrJoin(data, "; "))),
        "give the same data, batch sizes, order and seed, or start a new run from its "
        "weights with --model_name_or_path");
  }
  for (const std::string& change :
       Changes(SectionOf(state, "settings"), SettingsJson(run))) {
    std::fprintf(stderr, "notice: from step %ld on %s in the checkpoint\n",
                 static_cast<long>(state.step + 1), change.c_str());
  }
  return absl::OkStatus();
}

absl::Status ReadRequiredNumerics(TrainingRun& run) {
  const TrainCommand& command = run.command;
  if (run.resume && !command.allow_other_numerics) {
    run.required_numerics = run.resume->manifest.numerics;
    run.required_numerics_name =
        absl::StrCat("--resume_from_checkpoint ", run.resume->directory);
  }
  if (!command.numerics_file || command.autotune) return absl::OkStatus();
  const std::string name = absl::StrCat("--numerics ", *command.numerics_file);
  STRATA_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*command.numerics_file));
  STRATA_ASSIGN_OR_RETURN(NumericsProfile profile, ParseNumerics(text, name));
  if (run.required_numerics) {
    STRATA_RETURN_IF_ERROR(
        CheckNumerics(profile, *run.required_numerics, run.required_numerics_name));
  }
  run.required_numerics = std::move(profile);
  run.required_numerics_name = name;
  return absl::OkStatus();
}

absl::Status FinishNumerics(const TrainingRun& run) {
  const NumericsProfile& here = run.trainer->numerics();
  if (run.resume && run.command.allow_other_numerics) {
    for (const std::string& difference :
         NumericsDifferences(run.resume->manifest.numerics, here)) {
      std::fprintf(stderr, "warning: bits will differ from the checkpoint's run: %s\n",
                   difference.c_str());
    }
  }
  if (!run.command.autotune) return absl::OkStatus();
  return WriteTextFile(*run.command.numerics_file, ToJson(here).dump(2) + "\n");
}

int DefaultThreads(const TrainingRun& run) {
  const NumericsProfile* profile = run.required_numerics ? &*run.required_numerics
                                   : run.resume ? &run.resume->manifest.numerics
                                                : nullptr;
  const std::string* text = profile == nullptr ? nullptr : profile->Find("cpu.threads");
  int threads = 0;
  if (text != nullptr) {
    std::from_chars(text->data(), text->data() + text->size(), threads);
  }
  if (threads > 0) return threads;
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  // Beside a card, the thread that submits to it must never wait for a core.
  return run.device->kind() == DeviceKind::kCuda ? std::max(1, cores - 1) : cores;
}

absl::Status OpenCheckpointFolder(TrainingRun& run) {
  if (!Saves(run)) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(run.folder,
                          CheckpointFolder::Open(*run.command.output_directory));
  for (const std::string& path : run.folder->removed()) {
    std::fprintf(stderr, "notice: removed %s, left by a save that was cut short\n",
                 path.c_str());
  }
  WarnOfOthers(run);
  WarnOfRoom(run);
  return absl::OkStatus();
}

absl::StatusOr<std::string> SaveRunCheckpoint(TrainingRun& run, RunState state) {
  const StepSizes& sizes = run.sizes;
  state.run_id = run.run_id;
  state.epoch = state.step / sizes.steps_per_epoch;
  state.row = state.step % sizes.steps_per_epoch * sizes.rows * sizes.micro_batches;
  state.application = Json{
      {"model", run.command.model_directory},
      {"total_steps", sizes.total_steps},
      {"settings", SettingsJson(run)},
      {"data",
       DataJson(run)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  return run.folder->Save(
      *run.trainer, {.run = std::move(state),
                     .keep_max = run.config.save_total_limit,
                     .write_extras = [&](const std::string& directory) {
                       return ExportConfig(run.model_config, run.config.dtype,
                                           run.command.model_directory, directory);
                     }});
}

}  // namespace strata
