#include "model/explain_config.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

Json CountOrAuto(int64_t count) { return count > 0 ? Json(count) : Json("auto"); }

Json WarmupSteps(const RunConfig& config) {
  return config.warmup_ratio > 0 ? Json("auto") : Json(config.schedule.warmup_steps);
}

Json OneCycleParameters(const Schedule& schedule) {
  Json params = {{"cycle_min_lr", schedule.min_lr},
                 {"cycle_max_lr", schedule.peak_lr},
                 {"cycle_first_step_size", schedule.first_half.steps},
                 {"cycle_second_step_size", schedule.second_half.steps},
                 {"cycle_first_stair_count", schedule.first_half.stair_count},
                 {"cycle_second_stair_count", schedule.second_half.stair_count},
                 {"decay_step_size", schedule.step_size},
                 {"decay_lr_rate", schedule.step_rate},
                 {"cycle_momentum", schedule.cycle_momentum}};
  if (schedule.cycle_momentum) {
    params["cycle_min_mom"] = schedule.momentum_min;
    params["cycle_max_mom"] = schedule.momentum_max;
    params["decay_mom_rate"] = schedule.momentum_decay_rate;
  }
  return params;
}

Json SchedulerParameters(const RunConfig& config) {
  const Schedule& schedule = config.schedule;
  if (schedule.type == ScheduleType::kOneCycle) return OneCycleParameters(schedule);
  if (schedule.type == ScheduleType::kLrRangeTest) {
    return {{"lr_range_test_min_lr", schedule.min_lr},
            {"lr_range_test_step_size", schedule.step_size},
            {"lr_range_test_step_rate", schedule.step_rate},
            {"lr_range_test_staircase", schedule.staircase}};
  }
  const bool linear = schedule.warmup_shape == WarmupShape::kLinear;
  Json params = {{"warmup_num_steps", WarmupSteps(config)},
                 {"warmup_type", linear ? "linear" : "log"}};
  if (schedule.type != ScheduleType::kWarmupLr) {
    params["total_num_steps"] = CountOrAuto(schedule.total_steps);
  }
  if (schedule.type == ScheduleType::kWarmupCosineLr) {
    params["warmup_min_ratio"] = schedule.warmup_min_ratio;
    params["cos_min_ratio"] = schedule.cosine_min_ratio;
  } else {
    params["warmup_min_lr"] = schedule.min_lr;
    params["warmup_max_lr"] = schedule.peak_lr;
  }
  return params;
}

Json OptimizerSection(const OptimizerConfig& optimizer) {
  return {{"type", optimizer.decoupled_decay ? "AdamW" : "Adam"},
          {"params",
           {{"lr", optimizer.learning_rate},
            {"betas", {optimizer.beta1, optimizer.beta2}},
            {"eps", optimizer.eps},
            {"weight_decay", optimizer.weight_decay},
            {"adam_w_mode", optimizer.decoupled_decay}}}};
}

Json Fp16Section(const RunConfig& config) {
  if (config.dtype != DType::kF16) return {{"enabled", false}};
  const LossScaleConfig& scale = config.loss_scale;
  return {{"enabled", true},
          {"loss_scale", scale.static_scale},
          {"initial_scale_power", scale.initial_power},
          {"loss_scale_window", scale.window_steps},
          {"hysteresis", scale.hysteresis},
          {"consecutive_hysteresis", scale.consecutive_hysteresis},
          {"min_loss_scale", scale.minimum}};
}

Json OffloadSection(const std::optional<TierKind>& pin) {
  if (!pin) return {{"device", "auto"}};
  if (*pin == TierKind::kDevice) return {{"device", "none"}};
  if (*pin == TierKind::kHost) return {{"device", "cpu"}};
  return {{"device", "nvme"}, {"nvme_path", "auto"}};  // --nvme_path has it
}

// Pins that DeepSpeed has no word for at this stage are in the flags alone.
Json ZeroSection(const RunConfig& config) {
  const ZeroConfig& zero = config.zero;
  Json section = {
      {"stage", zero.stage},
      {"reduce_bucket_size", zero.reduce_bucket_size},
      {"allgather_bucket_size", zero.allgather_bucket_size},
      {"stage3_prefetch_bucket_size", zero.prefetch_bucket_size},
      {"stage3_param_persistence_threshold", zero.param_persistence_threshold},
      {"stage3_max_live_parameters", zero.max_live_parameters},
      {"stage3_max_reuse_distance", zero.max_reuse_distance},
      {"sub_group_size", zero.sub_group_size}};
  if (zero.stage < 3) return section;
  const PlacementFlags& pins = config.placement.pins;
  const auto& weights = pins[static_cast<size_t>(PlacedKind::kWeights)];
  section["offload_param"] = OffloadSection(weights);
  if (weights == TierKind::kNvme) {
    section["offload_param"]["max_in_cpu"] = config.placement.weights_in_host_elements;
  }
  section["offload_optimizer"] =
      OffloadSection(pins[static_cast<size_t>(PlacedKind::kOptimizer)]);
  return section;
}

Json MonitorSection(const std::string& directory) {
  if (directory.empty()) return {{"enabled", false}};
  const size_t slash = directory.rfind('/');
  const bool has_parent = slash != std::string::npos;
  return {{"enabled", true},
          {"output_path", has_parent ? directory.substr(0, slash + 1) : ""},
          {"job_name", has_parent ? directory.substr(slash + 1) : directory}};
}

template <typename T>
std::optional<T> Unless(const T& value, const T& default_value) {
  return value == default_value ? std::nullopt : std::optional<T>(value);
}

// Collects "--name value" for the flags that are set.
class FlagLine {
 public:
  template <typename T>
  void Add(const char* name, const std::optional<T>& value) {
    if (value) words_.push_back(absl::StrCat("--", name, " ", Text(*value)));
  }
  std::string Join() const { return absl::StrJoin(words_, " "); }

 private:
  static std::string Text(bool value) { return value ? "true" : "false"; }
  static std::string Text(int64_t value) { return absl::StrCat(value); }
  static std::string Text(double value) { return Json(value).dump(); }  // exact
  static std::string Text(const std::string& value) { return value; }

  std::vector<std::string> words_;
};

// One line, whatever a user's text holds.
std::string Comment(absl::string_view text) {
  return absl::StrCat("// ", absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}}), "\n");
}

}  // namespace

Json EffectiveJson(const RunConfig& config) {
  Json json = {{"train_batch_size", config.batch.train_batch_size()},
               {"train_micro_batch_size_per_gpu", config.batch.micro_batch_size},
               {"gradient_accumulation_steps", config.batch.accumulation_steps},
               {"dataloader_drop_last", config.batch.drop_last},
               {"gradient_clipping", config.optimizer.max_grad_norm},
               {"bf16",
                {{"enabled", config.dtype == DType::kBF16},
                 {"check_grad_overflow", config.check_grad_overflow}}},
               {"fp16", Fp16Section(config)},
               {"optimizer", OptimizerSection(config.optimizer)}};
  if (IsDeepSpeed(config.schedule.type)) {
    json["scheduler"] = {{"type", Name(config.schedule.type)},
                         {"params", SchedulerParameters(config)}};
  }
  json["zero_optimization"] = ZeroSection(config);
  json["aio"] = {{"block_size", config.aio.block_size_bytes},
                 {"queue_depth", config.aio.queue_depth},
                 {"intra_op_parallelism", config.aio.threads}};
  json["tensorboard"] = MonitorSection(config.log.tensorboard_directory);
  json["csv_monitor"] = MonitorSection(config.log.csv_directory);
  json["steps_per_print"] = config.log.steps_per_print;
  json["wall_clock_breakdown"] = config.log.wall_clock_breakdown;
  json["memory_breakdown"] = config.log.memory_breakdown;
  if (config.log.flops_profile_step > 0) {
    json["flops_profiler"] = {{"enabled", true},
                              {"profile_step", config.log.flops_profile_step}};
  }
  return json;
}

TrainFlags FlagsOf(const RunConfig& config) {
  const RunConfig defaults;
  TrainFlags flags;
  flags.max_steps = Unless(config.max_steps, defaults.max_steps);
  flags.num_train_epochs = Unless(config.num_train_epochs, defaults.num_train_epochs);
  flags.seed = Unless(config.seed, defaults.seed);
  flags.logging_steps = Unless(config.logging_steps, defaults.logging_steps);
  flags.save_steps = config.save_steps;
  flags.save_total_limit = config.save_total_limit;
  flags.eval_steps = config.eval_steps;
  flags.max_seq_length = config.max_seq_length;
  flags.shuffle = Unless(config.shuffle, defaults.shuffle);
  flags.packing = config.packing;
  flags.decay_norms = config.optimizer.decay_norms;  // the JSON's section means true
  flags.warmup_ratio = Unless(config.warmup_ratio, 0.0);
  if (!IsDeepSpeed(config.schedule.type)) {
    flags.lr_scheduler_type = Name(config.schedule.type);
    flags.warmup_steps = Unless<int64_t>(config.schedule.warmup_steps, 0);
  }
  flags.placement = config.placement.pins;
  flags.nvme_paths = config.placement.nvme_paths;
  return flags;
}

std::string FormatFlags(const TrainFlags& flags) {
  FlagLine line;
  line.Add("per_device_train_batch_size", flags.per_device_train_batch_size);
  line.Add("gradient_accumulation_steps", flags.gradient_accumulation_steps);
  line.Add("learning_rate", flags.learning_rate);
  line.Add("weight_decay", flags.weight_decay);
  line.Add("max_grad_norm", flags.max_grad_norm);
  line.Add("adam_beta1", flags.adam_beta1);
  line.Add("adam_beta2", flags.adam_beta2);
  line.Add("adam_epsilon", flags.adam_epsilon);
  line.Add("lr_scheduler_type", flags.lr_scheduler_type);
  line.Add("warmup_steps", flags.warmup_steps);
  line.Add("warmup_ratio", flags.warmup_ratio);
  line.Add("max_steps", flags.max_steps);
  line.Add("bf16", flags.bf16);
  line.Add("fp16", flags.fp16);
  line.Add("dataloader_drop_last", flags.dataloader_drop_last);
  line.Add("num_train_epochs", flags.num_train_epochs);
  line.Add("seed", flags.seed);
  line.Add("logging_steps", flags.logging_steps);
  line.Add("save_steps", flags.save_steps);
  line.Add("save_total_limit", flags.save_total_limit);
  line.Add("eval_steps", flags.eval_steps);
  line.Add("max_seq_length", flags.max_seq_length);
  line.Add("shuffle", flags.shuffle);
  line.Add("packing", flags.packing);
  line.Add("decay_norms", flags.decay_norms);
  std::vector<std::string> pins;
  for (int kind = 0; kind < kPlacedKindCount; ++kind) {
    const std::optional<TierKind>& pin = flags.placement[static_cast<size_t>(kind)];
    if (pin) {
      pins.push_back(
          absl::StrCat(Name(static_cast<PlacedKind>(kind)), "=", Name(*pin)));
    }
  }
  if (!pins.empty()) line.Add("placement", std::optional(absl::StrJoin(pins, ",")));
  for (const NvmePath& path : flags.nvme_paths) {
    const std::string size = path.size_bytes ? absl::StrCat(":", *path.size_bytes) : "";
    line.Add("nvme_path", std::optional(path.directory + size));
  }
  return line.Join();
}

std::string ExplainConfig(const ConfigResolution& resolution) {
  std::string text = Comment("Every value and its source:");
  for (const ResolvedValue& value : resolution.values) {
    absl::StrAppend(&text, Comment(absl::StrCat("  ", value.path, " = ", value.value,
                                                "  (", value.source, ")")));
  }
  if (!resolution.ignored.empty()) {
    absl::StrAppend(&text, Comment("Given, and without effect here:"));
  }
  for (const IgnoredKey& key : resolution.ignored) {
    absl::StrAppend(
        &text, Comment(absl::StrCat("  ", key.path, " = ", key.value, ": ", key.note)));
  }
  for (const ConfigNote& warning : resolution.report.warnings) {
    absl::StrAppend(
        &text,
        Comment(absl::StrCat("Warning: ", warning.Format(resolution.deepspeed_name))));
  }
  absl::StrAppend(&text, Comment("The same run, with this text as --deepspeed, is:"),
                  Comment(absl::StrCat("  ", FormatFlags(FlagsOf(resolution.config)))),
                  EffectiveJson(resolution.config)
                      .dump(2, ' ', false, Json::error_handler_t::replace),
                  "\n");
  return text;
}

}  // namespace strata
