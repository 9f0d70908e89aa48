#include "tools/tierplan/plan_command.h"

#include <absl/strings/str_join.h>

#include "model/transformer_config.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

void AddModel(cli::Flags& flags, PlanCommand& c) {
  flags.BeginGroup("Model and step");
  flags.Add("model_name_or_path", &c.model,
            {"DIR|NAME",
             "Hugging Face directory, of which only config.json is read, or a built-in "
             "shape: " +
                 absl::StrJoin(BuiltinShapeNames(), ", "),
             "required"});
  flags.Add("tokens_per_step", &c.tokens_per_step,
            {"N", "tokens of an optimizer step", "as the JSON says, else 16384", 1});
  flags.Add("max_seq_length", &c.flags.max_seq_length,
            {"N", "tokens in a row", "2048, or what the model or the step allow", 1});
  flags.Add("per_device_train_batch_size", &c.flags.per_device_train_batch_size,
            {"N", "rows of a micro-batch", "as many as have 4096 tokens", 1});
  flags.Add("gradient_accumulation_steps", &c.flags.gradient_accumulation_steps,
            {"N", "micro-batches of a step", "what makes tokens_per_step", 1});
  flags.Add("bf16", &c.flags.bf16,
            {"", "bf16 weights with a lossless fp32 master; false: fp32",
             "true, or as the JSON says"});
  flags.Add("max_grad_norm", &c.flags.max_grad_norm,
            {"X", "clips the global norm; 0 = off, and updates need not wait for it",
             "1", 0});
  flags.Add(
      "deepspeed", &c.deepspeed_file,
      {"FILE", "DeepSpeed JSON: batch, precision, clipping, offload sections", "none"});
}

void AddMachine(cli::Flags& flags, PlanCommand& c) {
  flags.BeginGroup("Machine");
  flags.Add("device_memory", &c.device_memory,
            {"SIZE", "budget: all that the process holds on the device",
             "the memory of --hardware"});
  flags.Add("host_memory", &c.host_memory,
            {"SIZE", "budget of host memory", "90 % of what is available here"});
  flags.Add("nvme", &c.nvme, {"SIZE", "budget on drives", "0: no NVMe tier"});
  flags.Add("hardware", &c.hardware,
            {"NAME|FILE",
             "rates: h200, rtx4090, rtx3090, cpu, or a profile that tierbench saved",
             "the stored profile, else a typical card of that memory size"});
  flags.Add(
      "placement", &c.placement,
      {"KIND=TIER,..",
       "pins weights, optimizer, gradients or activations to device, host or nvme",
       "the planner's choice"});
}

void AddOutput(cli::Flags& flags, PlanCommand& c) {
  flags.BeginGroup("Output");
  flags.Add("sweep", &c.sweep,
            {"", "also list what usual sizes of device memory would give"});
  flags.Add("json", &c.json,
            {"F", "also write the answer as JSON; - prints it in place of the text"});
}

}  // namespace

cli::Flags PlanFlagTable(PlanCommand& command) {
  cli::Flags flags(
      "tierplan",
      "Says whether a model can be trained with given budgets, where everything would "
      "rest, the peak of each tier, and how long a step would take. Needs no GPU, no "
      "weights, and allocates nothing. Exit code 0 if it fits, 3 if nothing does.",
      {"tierplan --model_name_or_path llama-2-13b --device_memory 24GiB --host_memory "
       "64GB --nvme 200GB --hardware rtx4090",
       "tierplan --model_name_or_path llama-3.1-8b --device_memory 24GiB --sweep "
       "--json -"});
  AddModel(flags, command);
  AddMachine(flags, command);
  AddOutput(flags, command);
  return flags;
}

absl::Status PlanCommand::Finish() {
  if (model.empty()) {
    return WithMend(absl::InvalidArgumentError("--model_name_or_path is missing"),
                    "name a directory with a config.json, or a built-in shape: " +
                        absl::StrJoin(BuiltinShapeNames(), ", "));
  }
  if (placement) {
    STRATA_ASSIGN_OR_RETURN(flags.placement, ParsePlacement(*placement));
  }
  // A drive that is only planned for has no directory yet.
  if (nvme && nvme->bytes > 0) flags.nvme_paths.push_back({"nvme", nvme->bytes});
  return absl::OkStatus();
}

}  // namespace strata
