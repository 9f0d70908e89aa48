// Files as people have them, each with the outcome that it must have: accepted with so
// many warnings and these values, or refused for exactly these keys.
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/explain_config.h"
#include "model/run_config.h"
#include "model/text_file.h"

namespace strata {
namespace {

constexpr int64_t kHidden = 4096;

// The flags that fill every "auto".
TrainFlags FullFlags() {
  return {.per_device_train_batch_size = 2,
          .gradient_accumulation_steps = 4,
          .learning_rate = 2e-5,
          .weight_decay = 0.01,
          .max_grad_norm = 1.0,
          .warmup_steps = 10,
          .max_steps = 100,
          .bf16 = true};
}

// The file speaks for itself.
TrainFlags FewFlags() { return {.lr_scheduler_type = "constant", .max_steps = 100}; }

ConfigResolution ResolveFile(const std::string& name, const TrainFlags& flags) {
  const auto text = ReadTextFile(absl::StrCat(STRATA_TESTDATA, "/", name, ".json"));
  EXPECT_TRUE(text.ok()) << text.status();
  return ResolveConfig({.deepspeed_text = text.value_or(""),
                        .deepspeed_name = name + ".json",
                        .flags = flags,
                        .hidden = kHidden});
}

std::string Home(const RunConfig& config, PlacedKind kind) {
  const auto& pin = config.placement.pins[static_cast<size_t>(kind)];
  return pin ? Name(*pin) : "planner";
}

std::string DescribeSchedule(const Schedule& s) {
  const std::string name = Name(s.type);
  if (s.type == ScheduleType::kConstant) return name;
  if (s.type == ScheduleType::kLinear) {
    return absl::StrFormat("%s %g in %d, to 0 at %d", name, s.peak_lr, s.warmup_steps,
                           s.total_steps);
  }
  if (s.type == ScheduleType::kOneCycle) {
    return absl::StrFormat("%s %g->%g in %d, back in %d, then /(1 + %g k/%d)", name,
                           s.min_lr, s.peak_lr, s.first_half.steps, s.second_half.steps,
                           s.step_rate, s.step_size);
  }
  return absl::StrFormat("%s %s %g->%g in %d of %d", name,
                         s.warmup_shape == WarmupShape::kLog ? "log" : "linear",
                         s.min_lr, s.peak_lr, s.warmup_steps, s.total_steps);
}

std::string Describe(const RunConfig& config) {
  const OptimizerConfig& o = config.optimizer;
  return absl::StrFormat(
      "%d=%dx%d %s %s lr %g betas %g,%g eps %g decay %g clip %g; %s; stage %d weights "
      "%s "
      "optimizer %s",
      config.batch.train_batch_size(), config.batch.micro_batch_size,
      config.batch.accumulation_steps, Name(config.dtype),
      o.decoupled_decay ? "AdamW" : "Adam", o.learning_rate, o.beta1, o.beta2, o.eps,
      o.weight_decay, o.max_grad_norm, DescribeSchedule(config.schedule),
      config.zero.stage, Home(config, PlacedKind::kWeights),
      Home(config, PlacedKind::kOptimizer));
}

std::string DescribeSizes(const ZeroConfig& zero) {
  if (zero.stage == 0) return "";
  if (zero.stage < 3) {
    return absl::StrFormat("reduce=%d allgather=%d", zero.reduce_bucket_size,
                           zero.allgather_bucket_size);
  }
  return absl::StrFormat(
      "reduce=%d prefetch=%d persist=%d live=%d reuse=%d sub_group=%d",
      zero.reduce_bucket_size, zero.prefetch_bucket_size,
      zero.param_persistence_threshold, zero.max_live_parameters,
      zero.max_reuse_distance, zero.sub_group_size);
}

struct Accepted {
  const char* file;
  TrainFlags flags;
  std::string values;
  std::string sizes;
  std::vector<const char*> warned = {};
};

const std::string kUsual =
    "8=2x4 BF16 AdamW lr 2e-05 betas 0.9,0.999 eps 1e-08 decay 0.01 clip 1; ";
const std::string kLinear = "linear 2e-05 in 10, to 0 at 100; ";
const std::string kAutoSizes =
    "reduce=16777216 prefetch=15099494 persist=40960 live=1000000000 reuse=1000000000 "
    "sub_group=1000000000";

std::vector<Accepted> AcceptedFiles() {
  return {
      {"zero3_cpu_offload", FullFlags(),
       kUsual + "WarmupLR log 0->2e-05 in 10 of 0; stage 3 weights host optimizer host",
       kAutoSizes},
      {"zero3_offload_unknown_sections",
       FullFlags(),
       kUsual + kLinear + "stage 3 weights host optimizer host",
       "reduce=16777216 prefetch=15099494 persist=40960 live=1000000000 "
       "reuse=1000000000 sub_group=500000000",
       {"comms_config: ", "monitor_config: "}},
      {"zero3_short_names", FullFlags(),
       kUsual + kLinear + "stage 3 weights host optimizer host",
       "reduce=16777216 prefetch=15099494 persist=40960 live=0 reuse=0 sub_group=0"},
      {"zero3_warmup_decay", FullFlags(),
       kUsual + "WarmupDecayLR log 0->2e-05 in 10 of 100; stage 3 weights host "
                "optimizer host",
       "reduce=16777216 prefetch=15099494 persist=40960 live=500000000 reuse=500000000 "
       "sub_group=100000000"},
      {"zero2_minimal", FullFlags(),
       kUsual + kLinear + "stage 2 weights planner optimizer host",
       "reduce=500000000 allgather=500000000"},
      {"zero2_no_offload", FullFlags(),
       kUsual + kLinear + "stage 2 weights planner optimizer planner",
       "reduce=200000000 allgather=500000000"},
      {"zero3_nvme_both",
       FullFlags(),
       kUsual + kLinear + "stage 3 weights nvme optimizer nvme",
       kAutoSizes,
       {"aio.thread_count: ",
        "zero_optimization.stage3_gather_fp16_weights_on_model_save: "}},
      {"zero2_old_names_fp16",
       FewFlags(),
       "16=4x4 F16 AdamW lr 0.00015 betas 0.9,0.95 eps 1e-08 decay 0.01 clip 1; "
       "constant; stage 2 weights planner optimizer host",
       "reduce=50000000 allgather=50000000",
       {"zero_optimization.cpu_offload: ",
        "zero_optimization.cpu_offload_use_pin_memory: "}},
      {"one_cycle_fp32", FewFlags(),
       "24=6x4 F32 Adam lr 0.001 betas 0.85,0.99 eps 1e-08 decay 3e-07 clip 0; "
       "OneCycle "
       "1e-05->0.0004 in 40, back in 40, then /(1 + 0.5 k/20); stage 0 weights planner "
       "optimizer planner",
       ""},
      {"zero3_warmup_cosine", FullFlags(),
       kUsual + "WarmupCosineLR log 0->2e-05 in 10 of 100; stage 3 weights device "
                "optimizer device",
       kAutoSizes},
      {"monitors_and_profilers", FullFlags(),
       kUsual + kLinear + "stage 2 weights planner optimizer host",
       "reduce=200000000 allgather=200000000"},
      {"zero1_bf16_fp32_accumulation", FewFlags(),
       "32=4x8 BF16 AdamW lr 0.0003 betas 0.9,0.95 eps 1e-05 decay 0.1 clip 0.5; "
       "WarmupDecayLR linear 3e-06->0.0003 in 20 of 100; stage 1 weights planner "
       "optimizer planner",
       "reduce=500000000 allgather=500000000"},
      {"zero3_auto_devices", FullFlags(),
       kUsual + "WarmupDecayLR log 0->2e-05 in 10 of 100; stage 3 weights planner "
                "optimizer planner",
       kAutoSizes},
      {"zero2_compile_section",
       FullFlags(),
       kUsual + kLinear + "stage 2 weights planner optimizer host",
       "reduce=500000000 allgather=500000000",
       {"compile.disable: ", "compile.backend: "}},
      {"comments_and_trailing_commas",
       FullFlags(),
       kUsual + kLinear + "stage 3 weights host optimizer host",
       kAutoSizes,
       {"comments_and_trailing_commas.json:2: is not plain JSON: a comment"}},
  };
}

TEST(DeepSpeedFiles, GoodOnesResolveToTheseValuesWithTheseWarnings) {
  for (const Accepted& expected : AcceptedFiles()) {
    SCOPED_TRACE(expected.file);
    const ConfigResolution resolution = ResolveFile(expected.file, expected.flags);
    ASSERT_TRUE(resolution.status().ok()) << resolution.status();
    EXPECT_EQ(Describe(resolution.config), expected.values);
    EXPECT_EQ(DescribeSizes(resolution.config.zero), expected.sizes);
    std::string all;
    for (const ConfigNote& warning : resolution.report.warnings) {
      absl::StrAppend(&all, warning.Format(resolution.deepspeed_name), "\n");
    }
    EXPECT_EQ(resolution.report.warnings.size(), expected.warned.size()) << all;
    for (const char* piece : expected.warned) {
      EXPECT_TRUE(absl::StrContains(all, piece)) << piece << " in " << all;
    }
  }
}

TEST(DeepSpeedFiles, TheEffectiveConfigurationIsValidInputForTheSameRun) {
  for (const Accepted& expected : AcceptedFiles()) {
    SCOPED_TRACE(expected.file);
    const ConfigResolution first = ResolveFile(expected.file, expected.flags);
    const std::string text = ExplainConfig(first);
    const ConfigResolution second = ResolveConfig({.deepspeed_text = text,
                                                   .deepspeed_name = "printed.json",
                                                   .flags = FlagsOf(first.config),
                                                   .hidden = kHidden});
    ASSERT_TRUE(second.status().ok()) << second.status() << text;
    EXPECT_TRUE(second.config == first.config) << text;
    EXPECT_EQ(second.report.warnings.size(), 1u);  // the comments
  }
}

struct Refused {
  const char* file;
  TrainFlags flags;
  std::vector<const char*> faults;  // exactly these, each with a piece of its text
  std::vector<const char*> warnings = {};
};

TEST(DeepSpeedFiles, BadOnesNameEveryFaultAtOnce) {
  const Refused cases[] = {
      {"both_precisions",
       FullFlags(),
       {"fp16.enabled: and bf16.enabled are both true"}},
      {"aio_inside_zero",
       FullFlags(),
       {"zero_optimization.aio: is no valid key; its place is the top level"},
       {"aio.thread_count: is an old name, now aio.intra_op_parallelism"}},
      {"onebit_adam_sparse_attention",
       FewFlags(),
       {"optimizer.type: is \"OneBitAdam\", which is not supported; the nearest are "
        "Adam "
        "and AdamW; freeze_step, cuda_aware, comm_backend_name go with it",
        "sparse_attention: "}},
      {"duplicate_keys",
       FullFlags(),
       {"zero_optimization.reduce_bucket_size: given twice: 2e8 in line 11 and 5e8 in "
        "line 14",
        "gradient_clipping: given twice: 1.0 in line 5 and \"auto\" in line 18"}},
      {"elastic_curriculum_mismatch",
       FewFlags(),
       {"train_batch_size: is 512, which is not 4 x 16 x 1 = 64",
        "elasticity: ", "curriculum_learning: "}},
      {"zero2_old_names_fp16",
       FullFlags(),
       {"train_batch_size: is 16 but --per_device_train_batch_size x "
        "--gradient_accumulation_steps is 2 x 4 = 8",
        "optimizer.params.lr: is 1.5e-4 but --learning_rate is 2e-05",
        "fp16.enabled: is true but --bf16 is true"},
       {"cpu_offload", "cpu_offload_use_pin_memory"}},
      {"one_cycle_fp32",
       FullFlags(),
       {"train_micro_batch_size_per_gpu: is 6 but --per_device_train_batch_size is 2",
        "train_batch_size: is 24", "gradient_clipping: is 0 but --max_grad_norm is 1",
        "optimizer.params.lr: is 0.001", "optimizer.params.weight_decay: is 3e-7"}},
      {"zero1_bf16_fp32_accumulation",
       FullFlags(),
       {"train_micro_batch_size_per_gpu: is 4", "train_batch_size: is 32",
        "gradient_clipping: is 0.5", "optimizer.params.lr: is 3e-4",
        "optimizer.params.weight_decay: is 0.1",
        "scheduler.params.warmup_max_lr: is 3e-4 but --learning_rate is 2e-05",
        "scheduler.params.warmup_num_steps: is 20 but --warmup_steps is 10"}},
  };
  for (const Refused& expected : cases) {
    SCOPED_TRACE(expected.file);
    const ConfigResolution resolution = ResolveFile(expected.file, expected.flags);
    const std::string text(resolution.status().message());
    EXPECT_EQ(resolution.report.faults.size(), expected.faults.size()) << text;
    for (const char* piece : expected.faults) {
      EXPECT_TRUE(absl::StrContains(text, piece)) << piece << " in\n" << text;
    }
    EXPECT_EQ(resolution.report.warnings.size(), expected.warnings.size());
    for (size_t i = 0; i < expected.warnings.size(); ++i) {
      const std::string warning =
          resolution.report.warnings[i].Format(resolution.deepspeed_name);
      EXPECT_TRUE(absl::StrContains(warning, expected.warnings[i])) << warning;
    }
  }
}

TEST(DeepSpeedFiles, UnknownSectionsNameTheNearestValidKey) {
  const ConfigResolution sections =
      ResolveFile("zero3_offload_unknown_sections", FullFlags());
  EXPECT_TRUE(absl::StrContains(sections.report.warnings[0].text, "comms_logger"));
  EXPECT_TRUE(absl::StrContains(sections.report.warnings[1].text, "csv_monitor"));
  const ConfigResolution compile = ResolveFile("zero2_compile_section", FullFlags());
  for (const ConfigNote& warning : compile.report.warnings) {
    EXPECT_TRUE(absl::StrContains(warning.text, "compile.deepcompile"));
  }
}

TEST(DeepSpeedFiles, DetailsBesideTheNumbersArrive) {
  const RunConfig nvme = ResolveFile("zero3_nvme_both", FullFlags()).config;
  ASSERT_EQ(nvme.placement.nvme_paths.size(), 1u);
  EXPECT_EQ(nvme.placement.nvme_paths[0].directory, "/local_nvme");
  EXPECT_EQ(nvme.placement.weights_in_host_elements, 1000000000);
  EXPECT_EQ(nvme.aio, (AioConfig{262144, 32, 1}));
  const RunConfig logs = ResolveFile("monitors_and_profilers", FullFlags()).config;
  EXPECT_EQ(logs.log.tensorboard_directory, "runs/llama2-7b-sft");
  EXPECT_EQ(logs.log.csv_directory, "runs/csv/llama2-7b-sft");
  EXPECT_EQ(logs.log.flops_profile_step, 5);
  EXPECT_EQ(logs.log.steps_per_print, 10);
  EXPECT_TRUE(logs.log.wall_clock_breakdown && logs.log.memory_breakdown);
  const RunConfig fp16 = ResolveFile("zero2_old_names_fp16", FewFlags()).config;
  EXPECT_EQ(fp16.loss_scale, (LossScaleConfig{0, 16, 1000, 2, false, 1}));
  EXPECT_TRUE(absl::StrContains(CheckTrainable(fp16).message(),
                                "fp16 training is not supported yet; use bf16"));
  const RunConfig cycle = ResolveFile("one_cycle_fp32", FewFlags()).config;
  EXPECT_NEAR(*CycledBeta1(cycle.schedule, 2), 0.9475, 1e-12);
  EXPECT_FALSE(CheckTrainable(cycle).ok());
  EXPECT_TRUE(CheckTrainable(nvme).ok());
}

TEST(DeepSpeedFiles, ExplanationsSayWhatHasNoMeaningHere) {
  const std::string text =
      ExplainConfig(ResolveFile("zero3_warmup_decay", FullFlags()));
  EXPECT_TRUE(absl::StrContains(
      text,
      "zero_optimization.offload_optimizer.pin_memory = false: what the plan stages "
      "is pinned"));
  EXPECT_TRUE(absl::StrContains(
      text,
      "stage3_gather_16bit_weights_on_model_save = false: the trained model is "
      "always written"));
  EXPECT_TRUE(
      absl::StrContains(text, "optimizer.params.lr = 2e-05  (--learning_rate)"));
  EXPECT_TRUE(
      absl::StrContains(text, "zero_optimization.stage = 3  (zero3_warmup_decay"));
  EXPECT_TRUE(absl::StrContains(
      ExplainConfig(ResolveFile("one_cycle_fp32", FewFlags())), "beta2 0.99"));
}

}  // namespace
}  // namespace strata
