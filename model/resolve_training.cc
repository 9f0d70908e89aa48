// Batch, precision and optimizer: what every step computes.
#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>

#include "model/config_resolver.h"

namespace strata {
namespace {

constexpr const char* kTotal = "train_batch_size";
constexpr const char* kMicro = "train_micro_batch_size_per_gpu";
constexpr const char* kSteps = "gradient_accumulation_steps";

// A factor of the batch: the file's number, else the typed flag, else open.
struct Factor {
  std::optional<int64_t> value;
  std::string source;
};

Factor ReadFactor(ConfigResolver& resolver, const char* path, const char* flag,
                  const std::optional<int64_t>& typed) {
  if (typed && *typed < 1) {
    resolver.report().Refuse(flag, 0,
                             absl::StrCat("is ", *typed, "; at least 1 is needed"));
    return {};
  }
  const DeepSpeedValue* given = resolver.Given(path);
  if (given == nullptr) return {typed, flag};
  if (given->integer < 1) {
    resolver.Require(false, path, given->number, "at least 1 is needed");
    return {};
  }
  if (typed && *typed != given->integer) {
    resolver.RefuseConflict(*given, flag, absl::StrCat(*typed));
  }
  return {given->integer, resolver.SourceOf(*given)};
}

// total = micro x steps, on one rank. Fills the factor that is open.
void Factorise(ConfigResolver& resolver, const DeepSpeedValue& total, Factor& micro,
               Factor& steps) {
  const auto refuse = [&resolver, &total](std::string text) {
    resolver.report().Refuse(kTotal, total.line, std::move(text));
  };
  const int64_t rows = total.integer;
  if (rows < 1) return refuse(absl::StrCat("is ", rows, "; at least 1 is needed"));
  if (!micro.value && !steps.value) {
    micro = {rows, absl::StrCat(kTotal, ", in one micro-batch")};
    steps = {1, "one micro-batch holds the batch"};
  } else if (!micro.value || !steps.value) {
    const bool micro_is_open = !micro.value;
    Factor& open = micro_is_open ? micro : steps;
    const Factor& known = micro_is_open ? steps : micro;
    if (rows % *known.value != 0) {
      return refuse(absl::StrCat("is ", rows, ", no multiple of ",
                                 micro_is_open ? kSteps : kMicro, ", ", *known.value,
                                 " (", known.source, ")"));
    }
    open = {rows / *known.value,
            absl::StrCat(kTotal, " / ", micro_is_open ? kSteps : kMicro)};
  } else if (rows != *micro.value * *steps.value) {
    refuse(absl::StrCat("is ", rows, ", which is not ", *micro.value, " x ",
                        *steps.value, " x 1 = ", *micro.value * *steps.value, ": ",
                        kMicro, " (", micro.source, ") x ", kSteps, " (", steps.source,
                        ") x ranks"));
  }
}

void RefuseTwoPrecisions(ConfigResolver& resolver, bool from_flags) {
  const DeepSpeedValue* fp16 = resolver.Given("fp16.enabled");
  const DeepSpeedValue* bf16 = resolver.Given("bf16.enabled");
  const DeepSpeedValue* given = fp16 != nullptr && fp16->boolean ? fp16 : bf16;
  if (from_flags || given == nullptr) {
    resolver.report().Refuse("--bf16", 0, "and --fp16 are both given; keep one");
  } else if (fp16 != nullptr && bf16 != nullptr && fp16->boolean && bf16->boolean) {
    resolver.report().Refuse(
        fp16->written_path, fp16->line,
        absl::StrCat("and ", bf16->written_path,
                     " are both true; keep one, or write \"auto\" for "
                     "both"));
  } else {
    resolver.RefuseConflict(*given, given == fp16 ? "--bf16" : "--fp16", "true");
  }
}

void ResolveBetas(ConfigResolver& resolver, bool has_section) {
  const TrainFlags& flags = resolver.flags();
  OptimizerConfig& optimizer = resolver.config().optimizer;
  const char* path = "optimizer.params.betas";
  const DeepSpeedValue* given = resolver.Given(path);
  optimizer.beta1 = flags.adam_beta1.value_or(0.9);
  optimizer.beta2 = flags.adam_beta2.value_or(0.999);
  std::string source = has_section && resolver.file().Find(path) == nullptr
                           ? ConfigResolver::kDeepSpeedDefault
                           : ConfigResolver::kTrainerDefault;
  if (flags.adam_beta1 || flags.adam_beta2) source = "--adam_beta1, --adam_beta2";
  if (given != nullptr && given->numbers.size() != 2) {
    resolver.report().Refuse(
        given->written_path, given->line,
        absl::StrCat("has ", given->numbers.size(), " numbers; two are expected"));
  } else if (given != nullptr) {
    optimizer.beta1 = given->numbers[0];
    optimizer.beta2 = given->numbers[1];
    source = resolver.SourceOf(*given);
    if (flags.adam_beta1.value_or(optimizer.beta1) != optimizer.beta1) {
      resolver.RefuseConflict(*given, "--adam_beta1",
                              ConfigResolver::Text(*flags.adam_beta1));
    }
    if (flags.adam_beta2.value_or(optimizer.beta2) != optimizer.beta2) {
      resolver.RefuseConflict(*given, "--adam_beta2",
                              ConfigResolver::Text(*flags.adam_beta2));
    }
  }
  for (double beta : {optimizer.beta1, optimizer.beta2}) {
    resolver.Require(beta >= 0 && beta < 1, path, beta, "0 <= beta < 1 is needed");
  }
  resolver.Record(path,
                  absl::StrCat(ConfigResolver::Text(optimizer.beta1), ", ",
                               ConfigResolver::Text(optimizer.beta2)),
                  source);
}

// "Adam" decays like AdamW unless adam_w_mode is false, and "AdamW" always does: the
// rule of DeepSpeed.
void ResolveDecayForm(ConfigResolver& resolver) {
  const char* path = "optimizer.params.adam_w_mode";
  const DeepSpeedValue* type = resolver.Given("optimizer.type");
  const DeepSpeedValue* mode = resolver.Given(path);
  const bool adam_w = type == nullptr || absl::AsciiStrToLower(type->text) == "adamw";
  const bool asked_for = mode == nullptr || mode->boolean;
  resolver.config().optimizer.decoupled_decay = adam_w || asked_for;
  if (adam_w && !asked_for) {
    resolver.report().Warn(
        mode->written_path, mode->line,
        "is false but the type is AdamW, which decays apart from the "
        "gradient, as in DeepSpeed; for decay in the gradient write the "
        "type Adam");
  }
  resolver.Record(
      path, adam_w || asked_for ? "true" : "false",
      mode != nullptr && !adam_w ? resolver.SourceOf(*mode) : "the optimizer's type");
}

void ResolveDecayedTensors(ConfigResolver& resolver, bool has_section) {
  OptimizerConfig& optimizer = resolver.config().optimizer;
  const std::optional<bool>& typed = resolver.flags().decay_norms;
  optimizer.decay_norms = typed.value_or(has_section);
  resolver.Record("--decay_norms", optimizer.decay_norms ? "true" : "false",
                  typed         ? "--decay_norms"
                  : has_section ? "an optimizer section decays all parameters"
                                : "transformers' Trainer keeps norms and biases apart");
}

}  // namespace

void ResolveBatch(ConfigResolver& resolver) {
  const TrainFlags& flags = resolver.flags();
  Factor micro = ReadFactor(resolver, kMicro, "--per_device_train_batch_size",
                            flags.per_device_train_batch_size);
  Factor steps = ReadFactor(resolver, kSteps, "--gradient_accumulation_steps",
                            flags.gradient_accumulation_steps);
  const DeepSpeedValue* total = resolver.Given(kTotal);
  const int64_t flag_total = flags.per_device_train_batch_size.value_or(0) *
                             flags.gradient_accumulation_steps.value_or(0);
  if (total != nullptr && flag_total > 0 && flag_total != total->integer) {
    resolver.RefuseConflict(
        *total, "--per_device_train_batch_size x --gradient_accumulation_steps",
        absl::StrCat(*flags.per_device_train_batch_size, " x ",
                     *flags.gradient_accumulation_steps, " = ", flag_total));
  } else if (total != nullptr) {
    Factorise(resolver, *total, micro, steps);
  }
  BatchConfig& batch = resolver.config().batch;
  if (!micro.value) micro = {8, ConfigResolver::kTrainerDefault};
  if (!steps.value) steps = {1, ConfigResolver::kTrainerDefault};
  batch.micro_batch_size = *micro.value;
  batch.accumulation_steps = *steps.value;
  resolver.Record(kTotal, absl::StrCat(batch.train_batch_size()),
                  total != nullptr ? resolver.SourceOf(*total)
                                   : "micro-batch x accumulation x 1 rank");
  resolver.Record(kMicro, absl::StrCat(batch.micro_batch_size), micro.source);
  resolver.Record(kSteps, absl::StrCat(batch.accumulation_steps), steps.source);
  batch.drop_last = resolver.Bool({"dataloader_drop_last",
                                   "--dataloader_drop_last",
                                   flags.dataloader_drop_last,
                                   false,
                                   {}});
}

void ResolvePrecision(ConfigResolver& resolver) {
  const TrainFlags& flags = resolver.flags();
  const bool bf16 = resolver.Bool({"bf16.enabled", "--bf16", flags.bf16, false, {}});
  const bool fp16 = resolver.Bool({"fp16.enabled", "--fp16", flags.fp16, false, {}});
  if (bf16 && fp16) {
    RefuseTwoPrecisions(resolver,
                        flags.bf16.value_or(false) && flags.fp16.value_or(false));
  }
  RunConfig& config = resolver.config();
  config.dtype = bf16 ? DType::kBF16 : fp16 ? DType::kF16 : DType::kF32;
  const DeepSpeedValue* checks = resolver.Given("bf16.check_grad_overflow");
  config.check_grad_overflow = checks != nullptr && checks->boolean;
  resolver.Record(
      "bf16.check_grad_overflow", config.check_grad_overflow ? "true" : "false",
      checks == nullptr ? "absent means false here" : resolver.SourceOf(*checks));
  if (config.dtype != DType::kF16) return;
  LossScaleConfig& scale = config.loss_scale;
  scale.static_scale = resolver.NumberOr("fp16.loss_scale", 0);
  resolver.Require(scale.static_scale >= 0, "fp16.loss_scale", scale.static_scale,
                   "0 (dynamic) or a positive scale is needed");
  scale.initial_power = resolver.CountOr("fp16.initial_scale_power", 16);
  scale.window_steps = resolver.CountOr("fp16.loss_scale_window", 1000);
  scale.hysteresis = resolver.CountOr("fp16.hysteresis", 2);
  scale.consecutive_hysteresis = resolver.BoolOr("fp16.consecutive_hysteresis", false);
  scale.minimum = resolver.NumberOr("fp16.min_loss_scale", 1);
}

void ResolveOptimizer(ConfigResolver& resolver) {
  const TrainFlags& flags = resolver.flags();
  OptimizerConfig& optimizer = resolver.config().optimizer;
  const bool has_section = resolver.file().Find("optimizer") != nullptr;
  const auto number = [&](const char* path, const char* flag,
                          const std::optional<double>& typed, double trainer,
                          double deepspeed) {
    const double value =
        resolver.Number({path, flag, typed, trainer,
                         has_section ? std::optional(deepspeed) : std::nullopt});
    resolver.Require(value >= 0, path, value, "it may not be negative");
    return value;
  };
  optimizer.learning_rate =
      number("optimizer.params.lr", "--learning_rate", flags.learning_rate, 5e-5, 1e-3);
  ResolveBetas(resolver, has_section);
  optimizer.eps =
      number("optimizer.params.eps", "--adam_epsilon", flags.adam_epsilon, 1e-8, 1e-8);
  optimizer.weight_decay = number("optimizer.params.weight_decay", "--weight_decay",
                                  flags.weight_decay, 0, 0);
  ResolveDecayForm(resolver);
  ResolveDecayedTensors(resolver, has_section);
  if (!resolver.BoolOr("optimizer.params.bias_correction", true)) {
    resolver.Require(false, "optimizer.params.bias_correction", 0,
                     "Adam without bias correction is not supported");
  }
  const bool has_file = !resolver.file().name().empty();
  optimizer.max_grad_norm =
      resolver.Number({"gradient_clipping", "--max_grad_norm", flags.max_grad_norm, 1.0,
                       has_file ? std::optional(1.0) : std::nullopt});
  resolver.Require(optimizer.max_grad_norm >= 0, "gradient_clipping",
                   optimizer.max_grad_norm, "0 (off) or a positive norm is needed");
}

}  // namespace strata
