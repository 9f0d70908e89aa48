// The learning-rate schedule: DeepSpeed's `scheduler` section, else Trainer's flags.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/config_resolver.h"

namespace strata {
namespace {

constexpr absl::string_view kParams = "scheduler.params.";

// The constructor's arguments of each class; DeepSpeed would fail on any other.
std::vector<absl::string_view> ParametersOf(ScheduleType type) {
  switch (type) {
    case ScheduleType::kWarmupLr:
      return {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type"};
    case ScheduleType::kWarmupDecayLr:
      return {"warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "warmup_type",
              "total_num_steps"};
    case ScheduleType::kWarmupCosineLr:
      return {"warmup_min_ratio", "cos_min_ratio", "warmup_num_steps", "warmup_type",
              "total_num_steps"};
    case ScheduleType::kOneCycle:
      return {"cycle_min_lr",
              "cycle_max_lr",
              "decay_lr_rate",
              "cycle_first_step_size",
              "cycle_second_step_size",
              "cycle_first_stair_count",
              "cycle_second_stair_count",
              "decay_step_size",
              "cycle_momentum",
              "cycle_min_mom",
              "cycle_max_mom",
              "decay_mom_rate"};
    default:
      return {"lr_range_test_min_lr", "lr_range_test_step_size",
              "lr_range_test_step_rate", "lr_range_test_staircase"};
  }
}

void RefuseForeignParameters(ConfigResolver& resolver, ScheduleType type) {
  const std::vector<absl::string_view> own = ParametersOf(type);
  for (const KeySpec& key : DeepSpeedKeys()) {
    absl::string_view name = key.path;
    const DeepSpeedValue* value = resolver.file().Find(key.path);
    if (value == nullptr || !absl::ConsumePrefix(&name, kParams)) continue;
    if (std::find(own.begin(), own.end(), name) != own.end()) continue;
    resolver.report().Refuse(
        value->written_path, value->line,
        absl::StrCat("is no parameter of ", Name(type), "; the nearest valid key is ",
                     kParams, own.front()));
  }
}

std::optional<int64_t> TypedSteps(const TrainFlags& flags) {
  return flags.max_steps.value_or(-1) > 0 ? flags.max_steps : std::nullopt;
}

int64_t RatioSteps(double ratio, int64_t total_steps) {
  return static_cast<int64_t>(std::ceil(ratio * static_cast<double>(total_steps)));
}

// --warmup_steps decides over --warmup_ratio, as in Trainer.
std::optional<int64_t> TypedWarmup(const TrainFlags& flags) {
  if (flags.warmup_steps.value_or(0) > 0 || !flags.warmup_ratio)
    return flags.warmup_steps;
  const std::optional<int64_t> total = TypedSteps(flags);
  return total ? std::optional(RatioSteps(*flags.warmup_ratio, *total)) : std::nullopt;
}

void ResolveWarmupSteps(ConfigResolver& resolver) {
  const TrainFlags& flags = resolver.flags();
  const char* path = "scheduler.params.warmup_num_steps";
  Schedule& schedule = resolver.config().schedule;
  const std::optional<int64_t> typed = TypedWarmup(flags);
  const bool waits_for_total = !typed && flags.warmup_ratio;
  if (waits_for_total && resolver.Given(path) == nullptr) {
    resolver.config().warmup_ratio = *flags.warmup_ratio;
    schedule.warmup_steps = 0;
    resolver.Record(path, absl::StrCat(*flags.warmup_ratio, " of the total"),
                    "--warmup_ratio");
    return;
  }
  const bool has_section = resolver.file().Find("scheduler") != nullptr;
  const char* flag = flags.warmup_steps.value_or(0) > 0 || !flags.warmup_ratio
                         ? "--warmup_steps"
                         : "--warmup_ratio";
  schedule.warmup_steps =
      resolver.Count({path, flag, typed, 0,
                      has_section ? std::optional<int64_t>(1000) : std::nullopt});
}

void ResolveWarmupShape(ConfigResolver& resolver) {
  const char* path = "scheduler.params.warmup_type";
  const DeepSpeedValue* given = resolver.Given(path);
  const std::string shape = given == nullptr ? "log" : given->text;
  if (shape != "log" && shape != "linear") {
    resolver.report().Refuse(
        given->written_path, given->line,
        absl::StrCat("is \"", shape, "\"; \"log\" and \"linear\" are supported"));
  }
  resolver.config().schedule.warmup_shape =
      shape == "linear" ? WarmupShape::kLinear : WarmupShape::kLog;
  resolver.Record(
      path, shape,
      given == nullptr ? ConfigResolver::kDeepSpeedDefault : resolver.SourceOf(*given));
}

void ResolveTotalSteps(ConfigResolver& resolver) {
  const char* path = "scheduler.params.total_num_steps";
  const std::optional<int64_t> typed = TypedSteps(resolver.flags());
  Schedule& schedule = resolver.config().schedule;
  if (!typed && resolver.Given(path) == nullptr) {
    schedule.total_steps = 0;
    resolver.Record(path, "the run's length", "--num_train_epochs and the data");
    return;
  }
  schedule.total_steps = resolver.Count({path, "--max_steps", typed, 0, 0});
  resolver.Require(schedule.total_steps >= 1, path,
                   static_cast<double>(schedule.total_steps), "at least 1 is needed");
}

void ResolveWarmupMaximum(ConfigResolver& resolver) {
  const char* path = "scheduler.params.warmup_max_lr";
  Schedule& schedule = resolver.config().schedule;
  const double optimizer_lr = resolver.config().optimizer.learning_rate;
  const bool follows_optimizer =
      resolver.file().Find(path) != nullptr || schedule.type == ScheduleType::kWarmupLr;
  schedule.peak_lr =
      resolver.Number({path, "--learning_rate", resolver.flags().learning_rate,
                       optimizer_lr, follows_optimizer ? optimizer_lr : 1e-3});
  schedule.min_lr = resolver.NumberOr("scheduler.params.warmup_min_lr", 0);
}

void ResolveOneCycle(ConfigResolver& resolver) {
  Schedule& schedule = resolver.config().schedule;
  for (const char* path :
       {"scheduler.params.cycle_min_lr", "scheduler.params.cycle_max_lr"}) {
    if (resolver.Given(path) != nullptr) continue;
    resolver.report().Refuse(path, 0, "is missing; OneCycle needs it");
  }
  schedule.min_lr = resolver.NumberOr("scheduler.params.cycle_min_lr", 0);
  schedule.peak_lr = resolver.NumberOr("scheduler.params.cycle_max_lr", 0);
  CycleHalf& first = schedule.first_half;
  CycleHalf& second = schedule.second_half;
  first.steps = resolver.CountOr("scheduler.params.cycle_first_step_size", 2000);
  second.steps =
      resolver.CountOr("scheduler.params.cycle_second_step_size", first.steps);
  first.stair_count = resolver.CountOr("scheduler.params.cycle_first_stair_count", 0);
  second.stair_count =
      resolver.CountOr("scheduler.params.cycle_second_stair_count", first.stair_count);
  resolver.Require(first.steps >= 1, "scheduler.params.cycle_first_step_size", 0,
                   "at least 1 is needed");
  resolver.Require(second.steps >= 1, "scheduler.params.cycle_second_step_size", 0,
                   "at least 1 is needed");
  schedule.step_size = resolver.CountOr("scheduler.params.decay_step_size", 0);
  schedule.step_rate = resolver.NumberOr("scheduler.params.decay_lr_rate", 0);
  schedule.cycle_momentum = resolver.BoolOr("scheduler.params.cycle_momentum", true);
  if (!schedule.cycle_momentum) return;
  schedule.momentum_min = resolver.NumberOr("scheduler.params.cycle_min_mom", 0.8);
  schedule.momentum_max = resolver.NumberOr("scheduler.params.cycle_max_mom", 0.9);
  schedule.momentum_decay_rate =
      resolver.NumberOr("scheduler.params.decay_mom_rate", 0);
  resolver.config().optimizer.beta1 = schedule.momentum_min;
  resolver.config().optimizer.beta2 = 0.99;
  resolver.Record("optimizer.params.betas",
                  absl::StrCat("beta1 cycles from ", schedule.momentum_min, " to ",
                               schedule.momentum_max, ", beta2 0.99"),
                  "OneCycle replaces both, as in DeepSpeed");
}

void ResolveRangeTest(ConfigResolver& resolver) {
  Schedule& schedule = resolver.config().schedule;
  schedule.min_lr = resolver.NumberOr("scheduler.params.lr_range_test_min_lr", 1e-3);
  schedule.step_size =
      resolver.CountOr("scheduler.params.lr_range_test_step_size", 2000);
  schedule.step_rate = resolver.NumberOr("scheduler.params.lr_range_test_step_rate", 1);
  schedule.staircase =
      resolver.BoolOr("scheduler.params.lr_range_test_staircase", false);
  resolver.Require(schedule.step_size >= 1, "scheduler.params.lr_range_test_step_size",
                   0, "at least 1 is needed");
}

void ResolveWarmup(ConfigResolver& resolver) {
  Schedule& schedule = resolver.config().schedule;
  ResolveWarmupSteps(resolver);
  ResolveWarmupShape(resolver);
  if (schedule.type != ScheduleType::kWarmupLr) ResolveTotalSteps(resolver);
  if (schedule.type == ScheduleType::kWarmupCosineLr) {
    schedule.peak_lr = resolver.config().optimizer.learning_rate;
    schedule.warmup_min_ratio =
        resolver.NumberOr("scheduler.params.warmup_min_ratio", 0);
    schedule.cosine_min_ratio =
        resolver.NumberOr("scheduler.params.cos_min_ratio", 1e-4);
  } else {
    ResolveWarmupMaximum(resolver);
  }
  if (schedule.total_steps > 0 && schedule.total_steps < schedule.warmup_steps) {
    resolver.report().Warn(
        "scheduler.params.total_num_steps", 0,
        absl::StrCat("is ", schedule.total_steps, ", less than the warm-up of ",
                     schedule.warmup_steps, " steps"));
  }
}

void ResolveSection(ConfigResolver& resolver) {
  const DeepSpeedValue* type_text = resolver.Given("scheduler.type");
  const std::optional<ScheduleType> type =
      type_text == nullptr ? std::nullopt : ParseScheduleType(type_text->text);
  if (!type || !IsDeepSpeed(*type)) {
    const DeepSpeedValue* section = resolver.file().Find("scheduler");
    resolver.report().Refuse(
        "scheduler.type", type_text == nullptr ? section->line : type_text->line,
        absl::StrCat(
            type_text == nullptr ? "is missing" : "is ",
            type_text == nullptr ? "" : type_text->text,
            "; WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle and LRRangeTest "
            "are supported"));
    return;
  }
  resolver.Record("scheduler.type", Name(*type), resolver.SourceOf(*type_text));
  resolver.config().schedule.type = *type;
  RefuseForeignParameters(resolver, *type);
  if (*type == ScheduleType::kOneCycle) return ResolveOneCycle(resolver);
  if (*type == ScheduleType::kLrRangeTest) return ResolveRangeTest(resolver);
  ResolveWarmup(resolver);
}

}  // namespace

void ResolveSchedule(ConfigResolver& resolver) {
  if (resolver.file().Find("scheduler") != nullptr) return ResolveSection(resolver);
  Schedule& schedule = resolver.config().schedule;
  const std::string name = resolver.Flag<std::string>(
      "--lr_scheduler_type", resolver.flags().lr_scheduler_type, "linear");
  const std::optional<ScheduleType> type = ParseScheduleType(name);
  if (!type || IsDeepSpeed(*type)) {
    resolver.report().Refuse(
        "--lr_scheduler_type", 0,
        absl::StrCat(
            "is ", name,
            "; constant, constant_with_warmup, linear and cosine are supported, "
            "and those of DeepSpeed in a scheduler section"));
    return;
  }
  schedule.type = *type;
  schedule.peak_lr = resolver.config().optimizer.learning_rate;
  if (*type == ScheduleType::kConstant) return;
  ResolveWarmupSteps(resolver);
  if (*type != ScheduleType::kConstantWithWarmup) ResolveTotalSteps(resolver);
}

std::vector<ConfigNote> CompleteSchedule(RunConfig& config, int64_t steps_per_epoch) {
  std::vector<ConfigNote> warnings;
  Schedule& schedule = config.schedule;
  if (config.max_steps <= 0) {
    config.max_steps = RatioSteps(config.num_train_epochs, steps_per_epoch);
  }
  if (schedule.total_steps == 0) schedule.total_steps = config.max_steps;
  if (config.warmup_ratio > 0) {
    schedule.warmup_steps = RatioSteps(config.warmup_ratio, schedule.total_steps);
  }
  const bool has_warmup = schedule.type != ScheduleType::kConstant &&
                          schedule.type != ScheduleType::kOneCycle &&
                          schedule.type != ScheduleType::kLrRangeTest;
  if (has_warmup && schedule.warmup_steps >= config.max_steps) {
    warnings.push_back(
        {"warm-up", 0,
         absl::StrCat("takes ", schedule.warmup_steps, " steps and the run has only ",
                      config.max_steps, ": the learning rate never reaches its peak")});
  }
  return warnings;
}

}  // namespace strata
