#include "tools/tierplan/plan_question.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>
#include <sys/stat.h>

#include <limits>

#include "kernels/ops.h"
#include "model/hf_config.h"
#include "model/llama.h"
#include "model/run_config.h"
#include "model/text_file.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "tools/tierplan/step_size.h"

namespace strata {
namespace {

/// What the CUDA kernels ask for each matmul, known without a card.
constexpr int64_t kCudaMatmulWorkspaceBytes = 32 * kMiB;
constexpr int64_t kMicroBatchesMax = 1 << 16;

/// "meta-llama/Llama-2-7b-hf" -> "llama-2-7b".
std::string ShapeNameOf(absl::string_view model) {
  absl::string_view name = model.substr(model.rfind('/') + 1);  // npos + 1 is 0
  absl::ConsumeSuffix(&name, "-hf");
  return absl::AsciiStrToLower(name);
}

absl::StatusOr<TransformerConfig> ReadShape(const std::string& model) {
  struct stat found;
  if (stat(model.c_str(), &found) == 0) {
    STRATA_ASSIGN_OR_RETURN(const HfConfig config, LoadHfConfig(model));
    return config.shape;
  }
  if (const auto shape = BuiltinShape(ShapeNameOf(model))) return *shape;
  const std::vector<std::string> names = BuiltinShapeNames();
  const auto nearest = NearestName(ShapeNameOf(model), names);
  return WithMend(
      absl::NotFoundError(absl::StrCat("--model_name_or_path '", model,
                                       "' is no directory and no built-in shape")),
      absl::StrCat(nearest ? absl::StrCat("did you mean ", *nearest, "? ") : "",
                   "built in are ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<ConfigResolution> Resolve(const PlanCommand& command, int64_t hidden) {
  ConfigInputs inputs{.flags = command.flags, .hidden = hidden};
  if (command.deepspeed_file) {
    STRATA_ASSIGN_OR_RETURN(inputs.deepspeed_text,
                            ReadTextFile(*command.deepspeed_file));
    inputs.deepspeed_name = *command.deepspeed_file;
  } else if (!inputs.flags.bf16) {
    inputs.flags.bf16 = true;
  }
  ConfigResolution resolution = ResolveConfig(inputs);
  STRATA_RETURN_IF_ERROR(resolution.status());
  STRATA_RETURN_IF_ERROR(CheckTrainable(resolution.config));
  return resolution;
}

absl::Status ReadStep(const PlanCommand& command, PlanQuestion& question) {
  STRATA_ASSIGN_OR_RETURN(const ConfigResolution resolution,
                          Resolve(command, question.shape.hidden));
  STRATA_ASSIGN_OR_RETURN(
      const StepSize size,
      ChooseStepSize(command, resolution, question.shape.max_position));
  constexpr int64_t kRowTokensMax = std::numeric_limits<int32_t>::max();
  if (size.rows > kRowTokensMax / size.length ||
      size.micro_batches > kMicroBatchesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(size.micro_batches, " micro-batches of ", size.rows, " rows of ",
                     size.length, " tokens are more than a step can have (",
                     kMicroBatchesMax, " of 2^31 tokens)"));
  }
  STRATA_RETURN_IF_ERROR(CheckWindow(question.shape, size.length));
  question.micro_batch = {size.rows, size.length};
  question.micro_batches = static_cast<int32_t>(size.micro_batches);
  const RunConfig& config = resolution.config;
  question.dtype = config.dtype;
  question.optimizer.max_grad_norm = config.optimizer.max_grad_norm;
  question.optimizer.skip_nonfinite = config.check_grad_overflow;
  const auto pin = [&config](PlacedKind kind) {
    return config.placement.pins[static_cast<size_t>(kind)];
  };
  question.pins = {.weights = pin(PlacedKind::kWeights),
                   .optimizer = pin(PlacedKind::kOptimizer),
                   .gradients = pin(PlacedKind::kGradients),
                   .activations = pin(PlacedKind::kActivations)};
  for (const ConfigNote& warning : resolution.report.warnings) {
    question.notes.push_back(warning.Format(resolution.deepspeed_name));
  }
  return absl::OkStatus();
}

absl::Status ReadMachine(const PlanCommand& command, PlanQuestion& question) {
  if (command.hardware) {
    STRATA_ASSIGN_OR_RETURN(question.machine, ReadHardware(*command.hardware));
  } else if (command.device_memory) {
    STRATA_ASSIGN_OR_RETURN(question.machine,
                            StoredOrTypicalProfile(command.device_memory->bytes));
  }
  Budgets& budgets = question.budgets;
  budgets.device_bytes = command.device_memory ? command.device_memory->bytes
                                               : question.machine.device_bytes;
  if (budgets.device_bytes <= 0) {
    return WithMend(absl::InvalidArgumentError("--device_memory is missing"),
                    "say how much the process may hold on the device: --device_memory "
                    "24GiB, or name a card: --hardware rtx4090");
  }
  if (command.host_memory) {
    budgets.host_bytes = command.host_memory->bytes;
  } else {
    STRATA_ASSIGN_OR_RETURN(const AvailableMemory memory, FindAvailableMemory(""));
    budgets.host_bytes = memory.available_bytes / 10 * 9;
    question.notes.push_back(absl::StrCat(
        "host memory: 90 % of what is available on this machine; --host_memory says "
        "otherwise"));
  }
  budgets.nvme_bytes = command.nvme ? command.nvme->bytes : 0;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> MatmulWorkspaceBytes(const PlanQuestion& question) {
  const MachineProfile& profile = question.machine.profile;
  const bool is_cpu = profile.name == "cpu" || profile.device == "cpu";
  if (!is_cpu) return kCudaMatmulWorkspaceBytes;
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<Kernels> kernels,
                          CreateKernels(DeviceKind::kCpu, {}));
  return kernels->matmul_workspace_bytes();
}

}  // namespace

absl::StatusOr<PlanQuestion> MakeQuestion(const PlanCommand& command) {
  PlanQuestion question{.model = command.model};
  STRATA_ASSIGN_OR_RETURN(question.shape, ReadShape(command.model));
  STRATA_RETURN_IF_ERROR(ReadStep(command, question));
  STRATA_RETURN_IF_ERROR(ReadMachine(command, question));
  return question;
}

absl::StatusOr<PlannedStep> Answer(const PlanQuestion& question) {
  ModelShape model;
  STRATA_ASSIGN_OR_RETURN(model.layers,
                          BuildLlama(question.shape, question.dtype, LlamaOptions()));
  model.micro_batch = question.micro_batch;
  model.micro_batches = question.micro_batches;
  model.dtype = question.dtype;
  TrainerOptions options;
  options.optimizer = question.optimizer;
  options.pins = question.pins;
  options.profile = question.machine.profile;
  options.budgets = question.budgets;
  options.budgets.device_bytes -= question.device_overhead_bytes();
  STRATA_ASSIGN_OR_RETURN(const int64_t workspace, MatmulWorkspaceBytes(question));
  return PlanTraining(model, options, workspace);
}

}  // namespace strata
