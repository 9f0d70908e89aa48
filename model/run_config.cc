#include "model/run_config.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include "model/config_resolver.h"

namespace strata {
namespace {

// "runs/" and "llama" as DeepSpeed's monitors join them.
std::string LogDirectory(ConfigResolver& resolver, const std::string& section) {
  if (!resolver.BoolOr(absl::StrCat(section, ".enabled").c_str(), false)) return "";
  const DeepSpeedValue* output = resolver.Given(absl::StrCat(section, ".output_path"));
  const DeepSpeedValue* job = resolver.Given(absl::StrCat(section, ".job_name"));
  std::string directory = output == nullptr ? "" : output->text;
  if (!directory.empty() && !absl::EndsWith(directory, "/")) directory.push_back('/');
  absl::StrAppend(&directory, job == nullptr ? "DeepSpeedJobName" : job->text);
  resolver.Record(absl::StrCat(section, " writes to"), directory,
                  "its output_path and job_name");
  return directory;
}

}  // namespace

void ResolveLogs(ConfigResolver& resolver) {
  LogConfig& log = resolver.config().log;
  log.tensorboard_directory = LogDirectory(resolver, "tensorboard");
  log.csv_directory = LogDirectory(resolver, "csv_monitor");
  for (const char* section : {"wandb", "comet", "trackio"}) {
    const DeepSpeedValue* enabled = resolver.Given(absl::StrCat(section, ".enabled"));
    if (enabled == nullptr || !enabled->boolean) continue;
    resolver.report().Warn(enabled->written_path, enabled->line,
                           "is true, but nothing is sent over a network; csv_monitor, "
                           "tensorboard and --log_file are written");
  }
  log.steps_per_print = resolver.CountOr("steps_per_print", 0);
  const bool profiles = resolver.BoolOr("flops_profiler.enabled", false);
  if (profiles) {
    log.flops_profile_step = resolver.CountOr("flops_profiler.profile_step", 1);
  }
  log.wall_clock_breakdown = resolver.BoolOr("wall_clock_breakdown", false) || profiles;
  log.memory_breakdown = resolver.BoolOr("memory_breakdown", false);
}

void ResolveRun(ConfigResolver& resolver) {
  const TrainFlags& flags = resolver.flags();
  RunConfig& config = resolver.config();
  const auto require = [&resolver](bool valid, const char* flag, double value,
                                   const char* expectation) {
    resolver.Require(valid, flag, value, expectation);
  };
  config.max_steps = resolver.Flag<int64_t>("--max_steps", flags.max_steps, -1);
  require(config.max_steps > 0 || config.max_steps == -1, "--max_steps",
          static_cast<double>(config.max_steps),
          "at least 1 is needed, or -1 for --num_train_epochs");
  config.num_train_epochs =
      resolver.Flag<double>("--num_train_epochs", flags.num_train_epochs, 3);
  require(config.num_train_epochs > 0, "--num_train_epochs", config.num_train_epochs,
          "more than 0 is needed");
  config.seed = resolver.Flag<int64_t>("--seed", flags.seed, 42);
  config.logging_steps =
      resolver.Flag<int64_t>("--logging_steps", flags.logging_steps, 500);
  config.shuffle = resolver.Flag<bool>("--shuffle", flags.shuffle, true);
  config.packing = flags.packing;
  config.save_steps = flags.save_steps;
  config.save_total_limit = flags.save_total_limit;
  config.eval_steps = flags.eval_steps;
  config.max_seq_length = flags.max_seq_length;
  const std::pair<const char*, std::optional<int64_t>> positive[] = {
      {"--logging_steps", config.logging_steps},
      {"--save_steps", config.save_steps},
      {"--save_total_limit", config.save_total_limit},
      {"--eval_steps", config.eval_steps},
      {"--max_seq_length", config.max_seq_length}};
  for (const auto& [flag, value] : positive) {
    require(!value || *value >= 1, flag, static_cast<double>(value.value_or(1)),
            "at least 1 is needed");
  }
  const double ratio = flags.warmup_ratio.value_or(0);
  require(ratio >= 0 && ratio <= 1, "--warmup_ratio", ratio, "0 to 1 is needed");
  require(flags.warmup_steps.value_or(0) >= 0, "--warmup_steps",
          static_cast<double>(flags.warmup_steps.value_or(0)),
          "it may not be negative");
}

ConfigResolution ResolveConfig(const ConfigInputs& inputs) {
  ConfigResolution resolution;
  resolution.deepspeed_name = inputs.deepspeed_name;
  DeepSpeedConfig file;
  if (!inputs.deepspeed_name.empty()) {
    file = DeepSpeedConfig::Parse(inputs.deepspeed_text, inputs.deepspeed_name,
                                  resolution.report);
  }
  resolution.has_optimizer_section = file.Find("optimizer") != nullptr;
  resolution.ignored = file.ignored();
  ConfigResolver resolver(file, inputs.flags, resolution);
  ResolveBatch(resolver);
  ResolvePrecision(resolver);
  ResolveOptimizer(resolver);
  ResolveSchedule(resolver);
  ResolveZero(resolver, inputs.hidden);
  ResolvePlacement(resolver);
  ResolveLogs(resolver);
  ResolveRun(resolver);
  return resolution;
}

absl::Status ConfigResolution::status() const {
  if (report.faults.empty()) return absl::OkStatus();
  std::string text;
  for (const ConfigNote& fault : report.faults) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", fault.Format(deepspeed_name));
  }
  return absl::InvalidArgumentError(text);
}

absl::Status CheckTrainable(const RunConfig& config) {
  if (config.dtype == DType::kF16) {
    return absl::UnimplementedError(
        "fp16.enabled: fp16 training is not supported yet; use bf16");
  }
  if (config.schedule.type == ScheduleType::kOneCycle &&
      config.schedule.cycle_momentum) {
    return absl::UnimplementedError(
        "scheduler.params.cycle_momentum: cycling beta1 is not supported yet; set it "
        "to "
        "false, or choose another scheduler");
  }
  return absl::OkStatus();
}

}  // namespace strata
