#include "tools/tiertrain/command_line.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "runtime/base/status.h"

namespace strata {
namespace {

void AddModelAndData(cli::Flags& flags, TrainCommand& c) {
  flags.BeginGroup("Model and data");
  flags.Add(
      "model_name_or_path", &c.model_directory,
      {"DIR", "Hugging Face directory: config.json and *.safetensors", "required"});
  flags.Add("from_scratch", &c.from_scratch,
            {"", "seeded random weights; DIR needs config.json only"});
  flags.Add("train_file", &c.train_files,
            {"F", "prepared .safetensors, or .jsonl of token ids; may be repeated",
             "required"});
  flags.Add("eval_file", &c.eval_file, {"F", "held-out data, in the same forms"});
  flags.Add("synthetic_data", &c.synthetic_data,
            {"", "seeded random tokens in place of --train_file, for benchmarks"});
  flags.Add("max_seq_length", &c.flags.max_seq_length,
            {"N", "tokens in a row; longer samples are cut", "the longest sample", 1});
  flags.Add("packing", &c.flags.packing,
            {"", "several samples in a row", "as prepared"});
  flags.Add("shuffle", &c.flags.shuffle, {"", "order by seed", "true"});
}

void AddTraining(cli::Flags& flags, TrainCommand& c) {
  TrainFlags& t = c.flags;
  flags.BeginGroup(
      "Training (as transformers' Trainer; they fill what the JSON leaves open)");
  flags.Add("deepspeed", &c.deepspeed_file, {"FILE", "DeepSpeed JSON"});
  flags.Add("output_dir", &c.output_directory,
            {"DIR", "where the trained model and report.json go"});
  flags.Add("max_steps", &t.max_steps, {"N", "optimizer steps", "from the epochs"});
  flags.Add("num_train_epochs", &t.num_train_epochs,
            {"X", "passes over the data", "3", 0});
  flags.Add("per_device_train_batch_size", &t.per_device_train_batch_size,
            {"N", "rows of a micro-batch", "8", 1});
  flags.Add("gradient_accumulation_steps", &t.gradient_accumulation_steps,
            {"N", "micro-batches of a step", "1", 1});
  flags.Add("dataloader_drop_last", &t.dataloader_drop_last,
            {"", "leave out the partial step at an epoch's end", "false"});
  flags.Add("learning_rate", &t.learning_rate, {"X", "peak", "5e-5", 0});
  flags.Add("lr_scheduler_type", &t.lr_scheduler_type,
            {"NAME", "constant, linear, cosine, constant_with_warmup", "linear"});
  flags.Add("warmup_steps", &t.warmup_steps, {"N", "steps of warm-up", "0", 0});
  flags.Add("warmup_ratio", &t.warmup_ratio,
            {"X", "the same as a share of all steps", "0", 0, 1});
  flags.Add("weight_decay", &t.weight_decay, {"X", "AdamW's", "0", 0});
  flags.Add("max_grad_norm", &t.max_grad_norm,
            {"X", "clips the global norm; 0 = off", "1", 0});
  flags.Add("adam_beta1", &t.adam_beta1, {"X", "AdamW's", "0.9", 0, 1});
  flags.Add("adam_beta2", &t.adam_beta2, {"X", "AdamW's", "0.999", 0, 1});
  flags.Add("adam_epsilon", &t.adam_epsilon, {"X", "AdamW's", "1e-8", 0});
  flags.Add(
      "decay_norms", &t.decay_norms,
      {"", "norms and biases decay, too", "with an optimizer section in the JSON"});
  flags.Add("bf16", &t.bf16, {"", "bf16 weights with a lossless fp32 master", "fp32"});
  flags.Add("fp16", &t.fp16, {"", "refused: not supported yet", "false"});
  flags.Add("seed", &t.seed, {"N", "of data order and random weights", "42", 0});
  flags.Add("logging_steps", &t.logging_steps,
            {"N", "steps between lines of progress", "1", 1});
  flags.Add("eval_steps", &t.eval_steps,
            {"N", "steps between evaluations", "at the end", 1});
}

void AddTiers(cli::Flags& flags, TrainCommand& c) {
  flags.BeginGroup("Tiers");
  flags.Add(
      "device", &c.device,
      {.value = "NAME", .help = "what computes", .choices = {"cpu", "cuda", "auto"}});
  flags.Add(
      "device_memory", &c.device_memory,
      {"SIZE", "budget: all that the process holds on the device", "what is free"});
  flags.Add("host_memory", &c.host_memory,
            {"SIZE", "budget of host memory", "90 % of what is available"});
  flags.Add("nvme_path", &c.nvme_paths,
            {"DIR[:SIZE]", "a directory on a drive, and its budget; may be repeated",
             "no nvme tier"});
  flags.Add(
      "placement", &c.placement,
      {"KIND=TIER,..",
       "pins weights, optimizer, gradients or activations to device, host or nvme",
       "the planner's choice"});
  flags.Add("io_backend", &c.io_backend,
            {.value = "NAME",
             .help = "how drives are read",
             .choices = {"auto", "io_uring", "libaio", "threads"}});
  flags.Add("threads", &c.threads,
            {"N", "CPU threads of one operation", "all cores; with a card all but one", 0, 1024});
}

void AddCheckpoints(cli::Flags& flags, TrainCommand& c) {
  flags.BeginGroup("Checkpoints");
  flags.Add("save_steps", &c.flags.save_steps,
            {"N",
             "steps between checkpoint-N directories in --output_dir; one more "
             "after the last step and at Ctrl-C",
             "none", 1});
  flags.Add("save_total_limit", &c.flags.save_total_limit,
            {"K", "checkpoints of this run that stay", "all", 1});
  flags.Add("resume_from_checkpoint", &c.resume_from_checkpoint,
            {"DIR|latest",
             "go on from a checkpoint, or from the last complete one in "
             "--output_dir"});
  flags.Add("numerics", &c.numerics_file,
            {"FILE",
             "refuse to run unless this machine and these settings compute as "
             "the numerics profile in FILE says"});
  flags.Add("autotune", &c.autotune,
            {"", "write this run's numerics profile to --numerics FILE instead"});
  flags.Add("allow_other_numerics", &c.allow_other_numerics,
            {"", "resume where bits come out differently than in the checkpoint"});
}

void AddOutput(cli::Flags& flags, TrainCommand& c) {
  flags.BeginGroup("Output");
  flags.Add("explain_config", &c.explain_config,
            {"", "print every setting with its source, and exit"});
  flags.Add("explain_plan", &c.explain_plan,
            {"", "print the plan: where everything rests, peaks, forecast; and exit"});
  flags.Add("log_file", &c.log_file, {"F.jsonl", "one JSON object a step"});
  flags.Add("timeline", &c.timeline, {"F.json", "Chrome trace of the last steps"});
  flags.Add("logits_file", &c.logits_file,
            {"F.safetensors", "logits of the first row of --eval_file after training"});
}

void AddGeneration(cli::Flags& flags, TrainCommand& c) {
  flags.BeginGroup("Generation, in place of training");
  flags.Add("generate", &c.prompt_file,
            {"F.jsonl",
             "continue the prompts in F, {\"input_ids\": [..]} a line; JSON "
             "lines with output_ids go to standard output",
             "train"});
  flags.Add("max_new_tokens", &c.max_new_tokens,
            {"N", "new tokens of a prompt at most", "64", 1, 1 << 20});
  flags.Add("temperature", &c.temperature,
            {"X",
             "0 = always the likeliest token; 1 = as the model has it, drawn by "
             "--seed",
             "0", 0});
}

absl::Status CheckGeneration(const TrainCommand& c) {
  if (!c.prompt_file) {
    const char* lonely = c.max_new_tokens ? "--max_new_tokens"
                         : c.temperature  ? "--temperature"
                                          : nullptr;
    if (lonely == nullptr) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(lonely, " goes with --generate"));
  }
  const std::pair<const char*, bool> others[] = {
      {"--train_file", !c.train_files.empty()},
      {"--synthetic_data", c.synthetic_data},
      {"--eval_file", c.eval_file.has_value()},
      {"--output_dir", c.output_directory.has_value()},
      {"--log_file", c.log_file.has_value()},
      {"--timeline", c.timeline.has_value()},
      {"--logits_file", c.logits_file.has_value()},
      {"--resume_from_checkpoint", c.resume_from_checkpoint.has_value()},
      {"--numerics", c.numerics_file.has_value()}};
  for (const auto& [name, given] : others) {
    if (!given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--generate and ", name, " exclude each other"));
  }
  return absl::OkStatus();
}

}  // namespace

cli::Flags TrainFlagTable(TrainCommand& command) {
  cli::Flags flags(
      "tiertrain",
      "Trains a model that does not fit its card: weights, gradients and optimizer "
      "rest in device memory, host memory and on NVMe, and move under the "
      "computation. Exact: where they rest never changes a bit.",
      {"tiertrain --model_name_or_path M --train_file data.safetensors --bf16 "
       "--device_memory 24GiB --output_dir out",
       "tiertrain --model_name_or_path M --train_file data.jsonl --deepspeed "
       "ds.json --explain_plan",
       "tiertrain --model_name_or_path M --generate prompts.jsonl --device_memory "
       "2GiB"});
  AddModelAndData(flags, command);
  AddTraining(flags, command);
  AddGeneration(flags, command);
  AddTiers(flags, command);
  AddCheckpoints(flags, command);
  AddOutput(flags, command);
  return flags;
}

absl::Status TrainCommand::Finish() {
  if (model_directory.empty()) {
    return absl::InvalidArgumentError("--model_name_or_path is missing");
  }
  STRATA_RETURN_IF_ERROR(CheckGeneration(*this));
  if (train_files.empty() == !synthetic_data && !explain_config && !prompt_file) {
    return absl::InvalidArgumentError(
        synthetic_data ? "--synthetic_data and --train_file exclude each other"
                       : "--train_file is missing (or --synthetic_data)");
  }
  if (flags.save_steps && !output_directory) {
    return absl::InvalidArgumentError(
        "--save_steps needs --output_dir, where the checkpoints go");
  }
  if (resume_from_checkpoint == "latest" && !output_directory) {
    return absl::InvalidArgumentError(
        "--resume_from_checkpoint latest needs --output_dir, where it looks");
  }
  if (autotune && !numerics_file) {
    return absl::InvalidArgumentError("--autotune needs --numerics FILE");
  }
  if (placement) {
    STRATA_ASSIGN_OR_RETURN(flags.placement, ParsePlacement(*placement));
  }
  for (const std::string& text : nvme_paths) {
    STRATA_ASSIGN_OR_RETURN(NvmePath path, ParseNvmePath(text));
    flags.nvme_paths.push_back(std::move(path));
  }
  return absl::OkStatus();
}

}  // namespace strata
