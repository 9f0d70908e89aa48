#include "tools/tiertrain/setup.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "model/checkpoint_state.h"
#include "model/llama.h"
#include "model/model_files.h"
#include "model/text_file.h"
#include "runtime/base/available_memory.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/device/cuda_device.h"
#include "tiers/nvme_store.h"
#include "tools/machine/find_profile.h"
#include "tools/tiertrain/generate.h"
#include "tools/tiertrain/outputs.h"
#include "tools/tiertrain/process_memory.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

absl::Status ReadConfiguration(TrainingRun& run) {
  const TrainCommand& command = run.command;
  STRATA_ASSIGN_OR_RETURN(run.model_config, LoadHfConfig(command.model_directory));
  ConfigInputs inputs{.flags = command.flags, .hidden = run.model_config.shape.hidden};
  if (command.deepspeed_file) {
    STRATA_ASSIGN_OR_RETURN(inputs.deepspeed_text,
                            ReadTextFile(*command.deepspeed_file));
    inputs.deepspeed_name = *command.deepspeed_file;
  }
  run.resolution = ResolveConfig(inputs);
  STRATA_RETURN_IF_ERROR(run.resolution.status());
  run.config = run.resolution.config;
  return CheckTrainable(run.config);
}

absl::Status OpenData(TrainingRun& run) {
  DatasetOptions options{.vocab = run.model_config.shape.vocab,
                         .max_position = run.model_config.shape.max_position,
                         .max_seq_length = run.config.max_seq_length,
                         .packing = run.config.packing,
                         .shuffle = run.config.shuffle,
                         .seed = static_cast<uint64_t>(run.config.seed)};
  if (run.command.synthetic_data) {
    options.shuffle = false;  // what is random has no order; more steps, the same rows
    const int64_t rows = run.config.batch.train_batch_size() *
                         std::max<int64_t>(run.config.max_steps, 1);
    run.train_data = Dataset::Synthetic(rows, options);
  } else {
    STRATA_ASSIGN_OR_RETURN(run.train_data,
                            Dataset::Open(run.command.train_files, options));
  }
  if (run.command.eval_file) {
    options.shuffle = false;
    STRATA_ASSIGN_OR_RETURN(
        run.eval_data, Dataset::Open(std::vector{*run.command.eval_file}, options));
  }
  return absl::OkStatus();
}

absl::Status SizeSteps(TrainingRun& run) {
  const BatchConfig& batch = run.config.batch;
  const int64_t rows = run.train_data->row_count();
  StepSizes& sizes = run.sizes;
  sizes.rows = batch.micro_batch_size;
  sizes.micro_batches = batch.accumulation_steps;
  const int64_t left = rows % batch.train_batch_size();
  sizes.steps_per_epoch =
      rows / batch.train_batch_size() + (left > 0 && !batch.drop_last);
  if (sizes.steps_per_epoch == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows of training data are less than one step of ",
                     batch.train_batch_size(),
                     " (train_batch_size), and partial steps are dropped: lower the "
                     "batch size or set "
                     "--dataloader_drop_last false"));
  }
  sizes.dropped_rows = batch.drop_last ? left : 0;
  sizes.last_micro_batches =
      left > 0 && !batch.drop_last ? CeilDiv(left, sizes.rows) : sizes.micro_batches;
  sizes.total_steps =
      run.config.max_steps >= 0
          ? run.config.max_steps
          : static_cast<int64_t>(std::ceil(run.config.num_train_epochs *
                                           static_cast<double>(sizes.steps_per_epoch)));
  for (const ConfigNote& warning :
       CompleteSchedule(run.config, sizes.steps_per_epoch)) {
    run.resolution.report.warnings.push_back(warning);
  }
  return absl::OkStatus();
}

// What is free on the drive of `directory`, or of the nearest parent that exists.
absl::StatusOr<int64_t> FreeBytes(const std::string& directory) {
  fs::path path = fs::absolute(directory);
  std::error_code error;
  while (!fs::exists(path, error) && path.has_parent_path() &&
         path != path.root_path()) {
    path = path.parent_path();
  }
  struct statvfs drive {};
  if (statvfs(path.c_str(), &drive) != 0)
    return IoError(errno, absl::StrCat("nvme_path '", directory, "': statvfs"));
  if (drive.f_blocks == 0) {
    return absl::InvalidArgumentError(absl::StrCat("nvme_path '", directory,
                                                   "': the filesystem at ",
                                                   path.string(), " stores no files"));
  }
  return static_cast<int64_t>(drive.f_bavail) * static_cast<int64_t>(drive.f_frsize);
}

absl::StatusOr<int64_t> NvmeBudget(const RunConfig& config) {
  int64_t budget = 0;
  for (const NvmePath& path : config.placement.nvme_paths) {
    if (path.size_bytes) {
      budget += *path.size_bytes;
    } else {
      STRATA_ASSIGN_OR_RETURN(const int64_t free, FreeBytes(path.directory));
      budget += free;
    }
  }
  return budget;
}

absl::Status ChooseDevice(TrainingRun& run) {
  const std::string& wanted = run.command.device;
  constexpr int64_t kUnlimited = int64_t{1} << 60;  // budgets are the plan's
  run.cpu =
      CreateCpuDevice({.device_bytes = kUnlimited, .pinned_host_bytes = kUnlimited});
  run.device = run.cpu.get();
  if (wanted == "cpu") return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Device>> cuda = CreateCudaDevice(0);
  if (!cuda.ok()) return wanted == "cuda" ? cuda.status() : absl::OkStatus();
  run.cuda = *std::move(cuda);
  run.device = run.cuda.get();
  return absl::OkStatus();
}

/// CUDA and cuBLASLt load kernels at their first launch: up to 113 MiB after the
/// context was made were seen in steps of a 7B model.
constexpr int64_t kLoadedLater = 160 * kMiB;

int64_t TakenByCuda(const Device& cuda) { return cuda.overhead_bytes() + kLoadedLater; }

absl::StatusOr<Budgets> ChooseBudgets(const TrainingRun& run) {
  Budgets budgets;
  STRATA_ASSIGN_OR_RETURN(const AvailableMemory memory, FindAvailableMemory(""));
  const int64_t usable = memory.available_bytes / 10 * 9;
  // On the CPU both arenas come out of the same memory.
  budgets.host_bytes = run.command.host_memory ? run.command.host_memory->bytes
                       : run.cuda              ? usable
                                               : usable / 2;
  if (!run.cuda) {
    budgets.device_bytes =
        run.command.device_memory ? run.command.device_memory->bytes : usable / 2;
  } else {
    STRATA_ASSIGN_OR_RETURN(const int64_t free, run.cuda->FreeBytes());
    const int64_t taken = TakenByCuda(*run.cuda);
    budgets.device_bytes = run.command.device_memory
                               ? run.command.device_memory->bytes - taken
                               : free - kLoadedLater;
    if (budgets.device_bytes <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--device_memory ", FormatSize(run.command.device_memory->bytes),
          " is less than what CUDA itself takes on this device, ", FormatSize(taken)));
    }
  }
  STRATA_ASSIGN_OR_RETURN(budgets.nvme_bytes, NvmeBudget(run.config));
  return budgets;
}

/// How fast this machine is, as far as anybody has measured.
absl::Status ChooseProfile(TrainingRun& run) {
  STRATA_ASSIGN_OR_RETURN(FoundProfile found,
                          ProfileForRun(SystemView::OfThisMachine(), *run.device));
  run.profile = std::move(found.profile);
  run.profile_source = std::move(found.source);
  // Advice about budgets counts what CUDA takes of them.
  run.profile.device_overhead_bytes = run.cuda ? TakenByCuda(*run.cuda) : 0;
  return absl::OkStatus();
}

absl::StatusOr<IoBackend> BackendOf(const std::string& name) {
  if (name == "auto") return IoBackend::kAuto;
  if (name == "io_uring") return IoBackend::kIoUring;
  if (name == "libaio") return IoBackend::kLibaio;
  return IoBackend::kThreads;
}

}  // namespace

absl::Status PrepareRun(TrainingRun& run) {
  STRATA_RETURN_IF_ERROR(ReadConfiguration(run));
  if (run.command.explain_config) return absl::OkStatus();
  if (!run.command.explain_plan) STRATA_RETURN_IF_ERROR(CheckOutputs(run.command));
  run.parameters = ParameterCount(run.model_config.shape);
  STRATA_RETURN_IF_ERROR(FindResumePoint(run));
  STRATA_RETURN_IF_ERROR(ReadRequiredNumerics(run));
  if (!run.command.from_scratch && !run.resume) {
    STRATA_ASSIGN_OR_RETURN(run.checkpoint,
                            HfCheckpoint::Open(run.command.model_directory));
    STRATA_RETURN_IF_ERROR(run.checkpoint->Verify(run.model_config.shape));
  }
  if (run.command.prompt_file) return ReadPrompts(run);
  STRATA_RETURN_IF_ERROR(OpenData(run));
  for (const Dataset* data : {run.train_data.get(), run.eval_data.get()}) {
    if (data == nullptr) continue;
    STRATA_RETURN_IF_ERROR(CheckWindow(run.model_config.shape, data->row_length()));
  }
  STRATA_RETURN_IF_ERROR(SizeSteps(run));
  return CheckResumePoint(run);
}

absl::StatusOr<ModelShape> MakeModel(const TrainingRun& run) {
  LlamaOptions llama;
  if (run.generation) {
    llama.trainable = [](absl::string_view) { return false; };
  } else if (!run.config.optimizer.decay_norms) {
    llama.decays = [](absl::string_view name) {
      return !absl::StrContains(name, "norm") && !absl::EndsWith(name, ".bias");
    };
  }
  ModelShape model;
  STRATA_ASSIGN_OR_RETURN(model.layers,
                          BuildLlama(run.model_config.shape, run.config.dtype, llama));
  model.dtype = run.config.dtype;
  if (run.generation) {
    model.micro_batch = {run.generation->rows, run.generation->length};
    return model;
  }
  int64_t length = run.train_data->row_length();
  if (run.eval_data) length = std::max(length, run.eval_data->row_length());
  model.micro_batch = {run.sizes.rows, length};
  model.micro_batches = static_cast<int32_t>(run.sizes.micro_batches);
  return model;
}

absl::StatusOr<TrainerOptions> MakeTrainerOptions(TrainingRun& run) {
  STRATA_RETURN_IF_ERROR(ChooseDevice(run));
  const OptimizerConfig& optimizer = run.config.optimizer;
  TrainerOptions options;
  options.optimizer = {.beta1 = optimizer.beta1,
                       .beta2 = optimizer.beta2,
                       .epsilon = optimizer.eps,
                       .weight_decay = optimizer.weight_decay,
                       .decoupled_decay = optimizer.decoupled_decay,
                       .max_grad_norm = optimizer.max_grad_norm,
                       .skip_nonfinite = run.config.check_grad_overflow};
  STRATA_ASSIGN_OR_RETURN(options.budgets, ChooseBudgets(run));
  const PlacementFlags& pins = run.config.placement.pins;
  const auto pin = [&pins](PlacedKind kind) { return pins[static_cast<size_t>(kind)]; };
  options.pins = {.weights = pin(PlacedKind::kWeights),
                  .optimizer = pin(PlacedKind::kOptimizer),
                  .gradients = pin(PlacedKind::kGradients),
                  .activations = pin(PlacedKind::kActivations)};
  STRATA_RETURN_IF_ERROR(ChooseProfile(run));
  options.profile = run.profile;
  if (run.sizes.last_micro_batches != run.sizes.micro_batches) {
    options.partial_steps = {static_cast<int32_t>(run.sizes.last_micro_batches)};
  }
  options.evaluates = run.eval_data != nullptr || run.generation;
  options.trains = !run.generation;
  options.kernels.threads = run.command.threads > 0
                                ? static_cast<int>(run.command.threads)
                                : DefaultThreads(run);
  options.required_numerics = run.required_numerics;
  options.required_numerics_name = run.required_numerics_name;
  options.device = run.device;
  options.host_device = run.cpu.get();
  STRATA_ASSIGN_OR_RETURN(const IoBackend backend, BackendOf(run.command.io_backend));
  std::vector<NvmeDirectory> directories;
  for (const NvmePath& path : run.config.placement.nvme_paths) {
    directories.push_back({path.directory, path.size_bytes.value_or(INT64_MAX)});
  }
  options.make_store =
      [directories, backend, chunk_bytes = run.profile.nvme_chunk_bytes,
       window_bytes = run.profile.nvme_window_bytes](
          const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
    if (directories.empty()) {
      return absl::InvalidArgumentError(
          "the plan keeps shards on nvme, but there is no --nvme_path (nvme_path in "
          "the JSON)");
    }
    NvmeStoreOptions store;
    store.directories = directories;
    store.capacity_bytes = needs.capacity_bytes;
    store.extent_count_max = needs.extent_count;
    store.requests_in_flight_max = needs.requests_in_flight;
    store.io_backend = backend;
    if (chunk_bytes > 0) {
      store.chunk_bytes = chunk_bytes;
      store.window_bytes = window_bytes;
    }
    return NvmeStore::Create(std::move(store));
  };
  return options;
}

absl::Status NameBudgets(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return status;
  return Annotate(status, "--device_memory, --host_memory and --nvme_path");
}

absl::Status StartTrainer(TrainingRun& run) {
  STRATA_ASSIGN_OR_RETURN(TrainerOptions options, MakeTrainerOptions(run));
  STRATA_ASSIGN_OR_RETURN(ModelShape model, MakeModel(run));
  run.process_bytes_before = ReadProcessMemory().resident_bytes;
  // Drives that are too small say so themselves.
  bool asks_for_store = false;
  options.make_store = [&,
                        make = std::move(options.make_store)](const StoreNeeds& needs) {
    asks_for_store = true;
    return make(needs);
  };
  auto trainer = Trainer::Create(std::move(model), std::move(options));
  if (!trainer.ok()) {
    return asks_for_store ? trainer.status() : NameBudgets(trainer.status());
  }
  run.trainer = *std::move(trainer);
  if (run.resume) {
    return RestoreTrainer(*run.trainer, run.resume->directory, run.resume->manifest);
  }
  return run.trainer->LoadWeights(
      run.checkpoint ? ReadFrom(*run.checkpoint)
                     : RandomWeights(static_cast<uint64_t>(run.config.seed)));
}

}  // namespace strata
