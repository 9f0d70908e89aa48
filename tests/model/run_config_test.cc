#include "model/run_config.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <string>

#include "model/explain_config.h"

namespace strata {
namespace {

ConfigResolution Resolve(const std::string& json, const TrainFlags& flags = {}) {
  return ResolveConfig({.deepspeed_text = json,
                        .deepspeed_name = "ds.json",
                        .flags = flags,
                        .hidden = 32});
}

// A file with `extra` beside what every file needs.
std::string File(const std::string& extra) {
  return absl::StrCat("{\"train_micro_batch_size_per_gpu\": 1",
                      extra.empty() ? "" : ",\n", extra, "}");
}

RunConfig Accept(const std::string& json, const TrainFlags& flags = {}) {
  const ConfigResolution resolution = Resolve(json, flags);
  EXPECT_TRUE(resolution.status().ok()) << resolution.status() << "\n" << json;
  return resolution.config;
}

void ExpectRefused(const std::string& json, const std::string& piece,
                   const TrainFlags& flags = {}) {
  const ConfigResolution resolution = Resolve(json, flags);
  EXPECT_EQ(resolution.report.faults.size(), 1u) << json << "\n" << resolution.status();
  EXPECT_TRUE(absl::StrContains(resolution.status().message(), piece))
      << piece << " in " << resolution.status();
}

void ExpectWarned(const std::string& json, const std::string& piece,
                  const TrainFlags& flags = {}) {
  const ConfigResolution resolution = Resolve(json, flags);
  EXPECT_TRUE(resolution.status().ok()) << resolution.status();
  ASSERT_EQ(resolution.report.warnings.size(), 1u) << json;
  const std::string warning = resolution.report.warnings[0].Format("ds.json");
  EXPECT_TRUE(absl::StrContains(warning, piece)) << piece << " in " << warning;
}

TEST(RunConfig, FlagsAloneMeanTrainersDefaults) {
  const ConfigResolution resolution = ResolveConfig({});
  ASSERT_TRUE(resolution.status().ok());
  EXPECT_TRUE(resolution.config == RunConfig{});
  const RunConfig& config = resolution.config;
  EXPECT_EQ(config.batch.train_batch_size(), 8);
  EXPECT_EQ(config.dtype, DType::kF32);
  EXPECT_DOUBLE_EQ(config.optimizer.learning_rate, 5e-5);
  EXPECT_DOUBLE_EQ(config.optimizer.max_grad_norm, 1);
  EXPECT_EQ(config.schedule.type, ScheduleType::kLinear);
  EXPECT_DOUBLE_EQ(config.num_train_epochs, 3);
  EXPECT_EQ(config.seed, 42);
  EXPECT_FALSE(config.optimizer.decay_norms);
}

TEST(RunConfig, AnyTwoBatchKeysGiveTheThird) {
  const auto batch = [](const std::string& json) { return Accept(json).batch; };
  EXPECT_EQ(batch("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2}"),
            (BatchConfig{2, 4}));
  EXPECT_EQ(batch("{\"train_batch_size\": 8, \"gradient_accumulation_steps\": 2}"),
            (BatchConfig{4, 2}));
  EXPECT_EQ(batch("{\"train_micro_batch_size_per_gpu\": 2, "
                  "\"gradient_accumulation_steps\": 3}"),
            (BatchConfig{2, 3}));
  EXPECT_EQ(batch("{\"train_batch_size\": 6}"), (BatchConfig{6, 1}));
  EXPECT_EQ(batch("{\"train_batch_size\": 6, \"dataloader_drop_last\": true}"),
            (BatchConfig{6, 1, true}));
}

TEST(RunConfig, ContradictingBatchKeysAreRefusedWithTheNumbers) {
  ExpectRefused(
      "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, "
      "\"gradient_accumulation_steps\": 1}",
      "train_batch_size: is 8, which is not 2 x 1 x 1 = 2");
  ExpectRefused(
      "{\"train_batch_size\": 7, \"train_micro_batch_size_per_gpu\": 2}",
      "train_batch_size: is 7, no multiple of train_micro_batch_size_per_gpu, 2");
  ExpectRefused(File("\"gradient_accumulation_steps\": 0"),
                "gradient_accumulation_steps: is 0; at least 1");
  ExpectRefused("{\"train_batch_size\": 32, \"train_micro_batch_size_per_gpu\": 4}",
                "train_batch_size: is 32, which is not 4 x 4 x 1 = 16",
                {.gradient_accumulation_steps = 4});
  ExpectRefused("{}", "--gradient_accumulation_steps: is 0",
                {.gradient_accumulation_steps = 0});
}

TEST(RunConfig, MisspeltKeysThatChangeTheNumbersAreRefusedWithTheRightName) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"gradient_acumulation_steps\": 4", "gradient_accumulation_steps"},
      {"\"Gradient_Clipping\": 4", "gradient_clipping"},
      {"\"optimiser\": {}", "optimizer"},
      {"\"learning_rate\": 4", "optimizer.params.lr"},
      {"\"weight_decay\": 4", "optimizer.params.weight_decay"},
      {"\"max_grad_norm\": 4", "gradient_clipping"},
      {"\"batch_size\": 4", "train_batch_size"},
      {"\"zero_optimisation\": {}", "zero_optimization"},
      {"\"bf16\": {\"enable\": true}", "bf16.enabled"},
      {"\"bf16\": {\"loss_scale\": 0}", "fp16.loss_scale"},
      {"\"zero_optimization\": {\"overlap_com\": true}",
       "zero_optimization.overlap_comm"},
      {"\"optimizer\": {\"type\": \"Adam\", \"params\": {\"beta1\": 0.9}}",
       "optimizer.params.betas"},
      {"\"optimizer\": {\"type\": \"Adam\", \"params\": {\"max_grad_norm\": 1}}",
       "gradient_clipping"},
      {"\"tensorboard\": {\"path\": \"x\"}", "tensorboard."},
      {"\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_steps\": 3}}",
       "scheduler.params.warmup_num_steps"},
  };
  for (const auto& [extra, nearest] : cases) {
    ExpectRefused(File(extra),
                  absl::StrCat("is no valid key; the nearest valid key is ", nearest));
  }
}

TEST(RunConfig, OtherUnknownKeysAreIgnoredWithAWarning) {
  ExpectWarned(
      File("\"step_per_print\": 4"),
      "step_per_print: is no valid key and is ignored; the nearest valid key is "
      "steps_per_print");
  ExpectWarned(File("\"aio\": {\"block_sise\": 4}"), "aio.block_size");
  ExpectWarned(File("\"offload_optimizer\": {\"device\": \"cpu\"}"),
               "zero_optimization.offload_optimizer");
  ExpectWarned(File("\"compile\": {\"enabled\": true, \"deepcompile\": true}"),
               "compile.enabled");
}

TEST(RunConfig, NumbersAreReadAsPeopleWriteThem) {
  const std::string key = "zero_optimization.reduce_bucket_size";
  const auto zero = [](const char* value) {
    return File(
        absl::StrCat("\"zero_optimization\": {\"reduce_bucket_size\": ", value, "}"));
  };
  for (const char* value : {"5e8", "500000000", "500000000.0", "5E+8"}) {
    const ConfigResolution resolution = Resolve(zero(value));
    EXPECT_TRUE(resolution.status().ok());
    EXPECT_TRUE(resolution.report.warnings.empty()) << value;
    EXPECT_EQ(resolution.config.zero.reduce_bucket_size, 500000000) << value;
  }
  ExpectWarned(zero("\"5e8\""), key + ": is the text \"5e8\", read as 5e8");
  ExpectWarned(zero("5.5"),
               key + ": is 5.5 where a whole number is expected, cut to 5");
  for (const char* value : {"-1", "true", "\"many\"", "[5]", "{}", "1e30", "\"nan\""}) {
    ExpectRefused(zero(value), key + ": is ");
  }
  const auto lr = [](const char* value) {
    return File(absl::StrCat(
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": ", value, "}}"));
  };
  ExpectWarned(lr("\"1e-3\""), "optimizer.params.lr");
  EXPECT_DOUBLE_EQ(Accept(lr("\"1e-3\"")).optimizer.learning_rate, 1e-3);
  ExpectRefused(lr("NaN"), "optimizer.params.lr: NaN is no number");
  ExpectRefused(lr("Infinity"), "ds.json:2: optimizer.params.lr");
  ExpectRefused(lr("-1e-3"), "optimizer.params.lr: is -0.001");
  ExpectWarned(File("\"bf16\": {\"enabled\": \"True\"}"), "bf16.enabled");
  EXPECT_EQ(Accept(File("\"bf16\": {\"enabled\": \"True\"}")).dtype, DType::kBF16);
  ExpectRefused(File("\"bf16\": {\"enabled\": 1}"),
                "bf16.enabled: is 1; true or false");
  ExpectRefused(File("\"bf16\": true"), "bf16: is true; an object is expected");
}

TEST(RunConfig, TextThatIsNoJsonIsRefusedWithTheLine) {
  ExpectRefused("", "ds.json:1: the text is empty");
  ExpectRefused("{\n\"a\": [1,\n", "ds.json:3: ");
  ExpectRefused("[]", "is no JSON object");
  ExpectWarned("\xEF\xBB\xBF{}", "a byte-order mark");
  ExpectWarned("{\"train_batch_size\": 4,}", "a trailing comma");
}

TEST(RunConfig, BothPrecisionsAreRefusedWhereverTheyComeFrom) {
  const std::string fp16 = File("\"fp16\": {\"enabled\": true}");
  ExpectRefused(fp16, "fp16.enabled: is true but --bf16 is true", {.bf16 = true});
  ExpectRefused(File("\"bf16\": {\"enabled\": true}"),
                "bf16.enabled: is true but --fp16 is true", {.fp16 = true});
  ExpectRefused("{}", "--bf16: and --fp16", {.bf16 = true, .fp16 = true});
  ExpectRefused(File("\"bf16\": {\"enabled\": false}"),
                "bf16.enabled: is false but --bf16 is true", {.bf16 = true});
  EXPECT_EQ(Accept(fp16).dtype, DType::kF16);
  EXPECT_EQ(Accept("{}", {.bf16 = true}).dtype, DType::kBF16);
}

TEST(RunConfig, WhatAdamMeans) {
  const auto optimizer = [](const char* type, const char* params) {
    return File(absl::StrCat("\"optimizer\": {\"type\": \"", type, "\", \"params\": {",
                             params, "}}"));
  };
  EXPECT_TRUE(
      Accept(optimizer("AdamW", "\"weight_decay\": 0.1")).optimizer.decoupled_decay);
  EXPECT_FALSE(
      Accept(optimizer("Adam", "\"adam_w_mode\": false")).optimizer.decoupled_decay);
  EXPECT_TRUE(
      Accept(optimizer("Adam", "\"weight_decay\": 0.1")).optimizer.decoupled_decay);
  EXPECT_TRUE(Accept(optimizer("adamw", "")).optimizer.decoupled_decay);
  ExpectWarned(optimizer("AdamW", "\"adam_w_mode\": false"),
               "adam_w_mode: is false but");
  const OptimizerConfig defaults = Accept(optimizer("AdamW", "")).optimizer;
  EXPECT_DOUBLE_EQ(defaults.weight_decay, 0);
  EXPECT_DOUBLE_EQ(defaults.learning_rate, 1e-3);  // DeepSpeed's
  EXPECT_DOUBLE_EQ(
      Accept(optimizer("AdamW", "\"lr\": \"auto\"")).optimizer.learning_rate,
      5e-5);  // Trainer's
  EXPECT_DOUBLE_EQ(
      Accept(optimizer("AdamW", ""), {.learning_rate = 7e-5}).optimizer.learning_rate,
      7e-5);
  ExpectRefused(optimizer("AdamW", "\"bias_correction\": false"), "bias_correction");
  ExpectRefused(optimizer("AdamW", "\"amsgrad\": true"), "amsgrad");
  EXPECT_TRUE(Resolve(optimizer("AdamW", "\"amsgrad\": false")).status().ok());
  ExpectRefused(optimizer("AdamW", "\"betas\": [0.9]"), "betas: has 1 numbers");
  ExpectRefused(optimizer("AdamW", "\"betas\": [0.9, 1.0]"),
                "betas: is 1; 0 <= beta < 1");
  ExpectRefused(optimizer("Lion", ""), "optimizer.type: is \"Lion\"");
  ExpectRefused(File("\"optimizer\": {\"params\": {}}"), "optimizer.type: is missing");
}

TEST(RunConfig, NormsDecayWithAnOptimizerSectionAndNotWithout) {
  const std::string section = File("\"optimizer\": {\"type\": \"AdamW\"}");
  EXPECT_TRUE(Accept(section).optimizer.decay_norms);
  EXPECT_FALSE(Accept(File("")).optimizer.decay_norms);
  EXPECT_FALSE(Accept(section, {.decay_norms = false}).optimizer.decay_norms);
  EXPECT_TRUE(Accept(File(""), {.decay_norms = true}).optimizer.decay_norms);
}

TEST(RunConfig, ClippingComesFromTheKeyThenTheFlag) {
  EXPECT_DOUBLE_EQ(Accept(File("\"gradient_clipping\": 0")).optimizer.max_grad_norm, 0);
  EXPECT_DOUBLE_EQ(Accept(File(""), {.max_grad_norm = 0.3}).optimizer.max_grad_norm,
                   0.3);
  EXPECT_DOUBLE_EQ(Accept(File("")).optimizer.max_grad_norm, 1);
  ExpectRefused(File("\"gradient_clipping\": -1"), "gradient_clipping: is -1");
  ExpectRefused(File("\"gradient_clipping\": 1"),
                "gradient_clipping: is 1 but --max_grad_norm is 0.5",
                {.max_grad_norm = 0.5});
}

TEST(RunConfig, SchedulersAreReadAndMistakesNamed) {
  const auto scheduler = [](const char* type, const char* params) {
    return File(absl::StrCat("\"scheduler\": {\"type\": \"", type, "\", \"params\": {",
                             params, "}}"));
  };
  const Schedule warmup =
      Accept(scheduler("WarmupLR", "\"warmup_max_lr\": 1e-3, \"warmup_num_steps\": 4"))
          .schedule;
  EXPECT_EQ(warmup.type, ScheduleType::kWarmupLr);
  EXPECT_DOUBLE_EQ(LearningRate(warmup, 5), 1e-3);
  ExpectRefused(scheduler("WarmupLR", "\"warmup_type\": \"cosine\""),
                "scheduler.params.warmup_type: is \"cosine\"");
  ExpectWarned(
      scheduler("WarmupDecayLR", "\"warmup_num_steps\": 10, \"total_num_steps\": 3"),
      "total_num_steps: is 3, less than the warm-up of 10");
  ExpectRefused(scheduler("WarmupLR", "\"total_num_steps\": 3"),
                "scheduler.params.total_num_steps: is no parameter of WarmupLR");
  ExpectRefused(scheduler("OneCycle", "\"cycle_min_lr\": 1e-5"),
                "scheduler.params.cycle_max_lr: is missing");
  ExpectRefused(
      scheduler("OneCycle",
                "\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, "
                "\"cycle_first_step_size\": 0, \"cycle_second_step_size\": 1"),
      "cycle_first_step_size: is 0");
  ExpectRefused(scheduler("linear", ""), "scheduler.type: is linear");
  ExpectRefused(File("\"scheduler\": {}"), "scheduler.type: is missing");
  ExpectRefused(scheduler("WarmupDecayLR", "\"total_num_steps\": 6"),
                "total_num_steps: is 6 but --max_steps is 12", {.max_steps = 12});
  // Without a number the optimizer's rate is the peak, except where DeepSpeed has its
  // own.
  EXPECT_DOUBLE_EQ(Accept(scheduler("WarmupLR", "")).schedule.peak_lr, 5e-5);
  EXPECT_DOUBLE_EQ(Accept(scheduler("WarmupDecayLR", "")).schedule.peak_lr, 1e-3);
  EXPECT_DOUBLE_EQ(
      Accept(scheduler("WarmupDecayLR", ""), {.learning_rate = 3e-4}).schedule.peak_lr,
      3e-4);
  ExpectRefused("{}", "--lr_scheduler_type: is polynomial",
                {.lr_scheduler_type = "polynomial"});
}

TEST(RunConfig, TheLengthOfTheRunCompletesTheSchedule) {
  RunConfig epochs = Accept("{}", {.warmup_ratio = 0.1, .num_train_epochs = 2});
  EXPECT_EQ(epochs.schedule.total_steps, 0);
  EXPECT_TRUE(CompleteSchedule(epochs, 25).empty());
  EXPECT_EQ(epochs.max_steps, 50);
  EXPECT_EQ(epochs.schedule.total_steps, 50);
  EXPECT_EQ(epochs.schedule.warmup_steps, 5);
  RunConfig part = Accept("{}", {.num_train_epochs = 0.5});
  CompleteSchedule(part, 5);
  EXPECT_EQ(part.max_steps, 3);
  RunConfig steps = Accept("{}", {.warmup_ratio = 0.25, .max_steps = 10});
  EXPECT_EQ(steps.schedule.warmup_steps, 3);
  EXPECT_TRUE(CompleteSchedule(steps, 25).empty());
  EXPECT_EQ(steps.max_steps, 10);
  RunConfig all_warmup = Accept("{}", {.warmup_steps = 10, .max_steps = 10});
  EXPECT_EQ(CompleteSchedule(all_warmup, 25).size(), 1u);
  RunConfig automatic =
      Accept(File("\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {"
                  "\"total_num_steps\": \"auto\", \"warmup_num_steps\": \"auto\"}}"),
             {.warmup_ratio = 0.1});
  CompleteSchedule(automatic, 10);
  EXPECT_EQ(automatic.schedule.total_steps, 30);
  EXPECT_EQ(automatic.schedule.warmup_steps, 3);
}

TEST(RunConfig, OffloadFollowsTheStagesOfDeepSpeed) {
  const auto zero = [](int stage, const char* section, const char* content) {
    return File(absl::StrCat("\"zero_optimization\": {\"stage\": ", stage, ", \"",
                             section, "\": {", content, "}}"));
  };
  const char* cpu = "\"device\": \"cpu\"";
  const char* nvme = "\"device\": \"nvme\", \"nvme_path\": \"/n\"";
  EXPECT_EQ(Accept(zero(1, "offload_optimizer", cpu)).placement.pins[1],
            TierKind::kHost);
  EXPECT_EQ(Accept(zero(3, "offload_optimizer", nvme)).placement.pins[1],
            TierKind::kNvme);
  EXPECT_EQ(Accept(zero(3, "offload_param", "\"device\": \"none\"")).placement.pins[0],
            TierKind::kDevice);
  EXPECT_FALSE(
      Accept(zero(3, "offload_param", "\"device\": \"auto\"")).placement.pins[0]);
  ExpectRefused(zero(0, "offload_optimizer", cpu), "offload_optimizer.device: is cpu");
  ExpectRefused(zero(1, "offload_optimizer", nvme), "from stage 3 on");
  ExpectRefused(zero(2, "offload_param", cpu), "offload_param.device: is cpu");
  ExpectRefused(zero(4, "offload_param", "\"device\": \"none\""),
                "zero_optimization.stage: is 4");
  ExpectRefused(zero(3, "offload_param", "\"device\": \"disk\""), "is \"disk\"");
  ExpectRefused(zero(3, "offload_param", "\"device\": \"nvme\""),
                "zero_optimization.offload_param.nvme_path: is missing");
  EXPECT_EQ(Accept(zero(3, "offload_param", "\"device\": \"nvme\""),
                   {.nvme_paths = {{"/m", 5}}})
                .placement.nvme_paths,
            (std::vector<NvmePath>{{"/m", 5}}));
  ExpectWarned(zero(3, "offload_optimizer", nvme), "--nvme_path was given",
               {.nvme_paths = {{"/m", {}}}});
}

TEST(RunConfig, PlacementPinsOverTheJsonAtAnyStage) {
  TrainFlags flags;
  flags.placement = *ParsePlacement("optimizer=nvme, activations=host");
  ExpectRefused(File(""), "--placement: optimizer=nvme needs a directory", flags);
  flags.nvme_paths = {{"/n", {}}};
  const PlacementConfig placement =
      Accept(File("\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": "
                  "{\"device\": \"cpu\"}}"),
             flags)
          .placement;
  EXPECT_EQ(placement.pins[1], TierKind::kNvme);
  EXPECT_EQ(placement.pins[3], TierKind::kHost);
  EXPECT_FALSE(placement.pins[0].has_value());
}

TEST(RunConfig, OldNamesAreReadAndRefusedBesideTheNewOnes) {
  ExpectWarned(File("\"bfloat16\": {\"enabled\": true}"), "bfloat16: is an old name");
  EXPECT_EQ(Accept(File("\"bfloat16\": {\"enabled\": true}")).dtype, DType::kBF16);
  ExpectWarned(File("\"zero_optimization\": true"),
               "zero_optimization: is an old form");
  EXPECT_EQ(Accept(File("\"zero_optimization\": true")).zero.stage, 1);
  ExpectWarned(File("\"zero_optimization\": {\"stage\": 2, \"cpu_offload\": false}"),
               "cpu_offload");
  ExpectRefused(File("\"zero_optimization\": {\"prefetch_bucket_size\": 1, "
                     "\"stage3_prefetch_bucket_size\": 1}"),
                "is another name of zero_optimization.prefetch_bucket_size");
  ExpectRefused(File("\"aio\": {\"intra_op_parallelism\": 1, \"thread_count\": 1}"),
                "aio.thread_count: is another name");
}

TEST(RunConfig, SectionsWithoutACounterpartAreRefusedOnlyWhenOn) {
  const std::pair<const char*, const char*> cases[] = {
      {"\"elasticity\": {\"enabled\": true}", "\"elasticity\": {\"enabled\": false}"},
      {"\"amp\": {\"enabled\": true}", "\"amp\": {\"enabled\": \"auto\"}"},
      {"\"compression_training\": {\"w\": {\"shared\": {\"enabled\": true}}}",
       "\"compression_training\": {\"w\": {\"shared\": {\"enabled\": false}}}"},
      {"\"sequence_parallel_size\": 2", "\"sequence_parallel_size\": 1"},
      {"\"zero_optimization\": {\"zero_quantized_weights\": true}",
       "\"zero_optimization\": {\"zero_quantized_weights\": false}"},
      {"\"zero_optimization\": {\"zenflow\": {\"topk_ratio\": 0.1}}",
       "\"zero_optimization\": {\"zenflow\": null}"},
  };
  for (const auto& [on, off] : cases) {
    EXPECT_EQ(Resolve(File(on)).report.faults.size(), 1u) << on;
    const ConfigResolution silent = Resolve(File(off));
    EXPECT_TRUE(silent.status().ok()) << silent.status();
    EXPECT_TRUE(silent.report.warnings.empty()) << off;
  }
  ExpectWarned(File("\"wandb\": {\"enabled\": true}"), "wandb.enabled: is true, but");
}

TEST(RunConfig, AZeroLengthRunIsRefused) {
  ExpectRefused("{}", "--max_steps: is 0", {.max_steps = 0});
  ExpectRefused("{}", "--num_train_epochs: is 0", {.num_train_epochs = 0});
  EXPECT_EQ(Accept("{}", {.max_steps = -1}).max_steps, -1);
  ExpectRefused("{}", "--save_steps: is 0", {.save_steps = 0});
}

TEST(RunConfig, FlagsSurviveTheExplanation) {
  TrainFlags flags = {.learning_rate = 1.0 / 3,
                      .lr_scheduler_type = "cosine",
                      .warmup_ratio = 0.1,
                      .num_train_epochs = 1.5,
                      .seed = 7,
                      .save_total_limit = 2,
                      .max_seq_length = 128,
                      .shuffle = false,
                      .packing = true};
  flags.placement = *ParsePlacement("weights=nvme,gradients=host");
  flags.nvme_paths = {{"/a", 100}, {"/b", {}}};
  const ConfigResolution first = ResolveConfig({.flags = flags, .hidden = 64});
  ASSERT_TRUE(first.status().ok()) << first.status();
  const std::string text = ExplainConfig(first);
  const ConfigResolution second = Resolve(text, FlagsOf(first.config));
  ASSERT_TRUE(second.status().ok()) << second.status();
  EXPECT_TRUE(second.config == first.config) << text;
  EXPECT_TRUE(absl::StrContains(
      text,
      "--num_train_epochs 1.5 --seed 7 --save_total_limit 2 --max_seq_length 128 "
      "--shuffle false --packing true --decay_norms false --placement "
      "weights=nvme,gradients=host --nvme_path /a:100 --nvme_path /b"));
}

TEST(TrainFlags, PlacementAndPathsAreParsed) {
  const auto placement = ParsePlacement("weights=device,optimizer=nvme");
  ASSERT_TRUE(placement.ok());
  EXPECT_EQ((*placement)[0], TierKind::kDevice);
  EXPECT_EQ((*placement)[1], TierKind::kNvme);
  EXPECT_FALSE((*placement)[2].has_value());
  for (const char* text : {"", "weights", "weights=disk", "wheels=host",
                           "weights=host,", "weights=host,weights=nvme"}) {
    EXPECT_FALSE(ParsePlacement(text).ok()) << text;
  }
  EXPECT_EQ(*ParseNvmePath("/mnt/a:100GiB"), (NvmePath{"/mnt/a", int64_t{100} << 30}));
  EXPECT_EQ(*ParseNvmePath("/mnt/a"), (NvmePath{"/mnt/a", {}}));
  EXPECT_EQ(*ParseNvmePath("/mnt/a:b"), (NvmePath{"/mnt/a:b", {}}));
  EXPECT_FALSE(ParseNvmePath("").ok());
  EXPECT_FALSE(ParseNvmePath(":5G").ok());
}

}  // namespace
}  // namespace strata
