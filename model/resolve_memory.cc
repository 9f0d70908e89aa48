// Where state rests, and the sizes of the ZeRO section.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <string>

#include "model/config_resolver.h"

namespace strata {
namespace {

struct OffloadSection {
  PlacedKind kind;
  const char* path;
  const char* device_path;
  const char* nvme_path;
};
constexpr OffloadSection kOffloadSections[] = {
    {PlacedKind::kWeights, "zero_optimization.offload_param",
     "zero_optimization.offload_param.device",
     "zero_optimization.offload_param.nvme_path"},
    {PlacedKind::kOptimizer, "zero_optimization.offload_optimizer",
     "zero_optimization.offload_optimizer.device",
     "zero_optimization.offload_optimizer.nvme_path"},
};

std::optional<TierKind> TierOfDevice(absl::string_view device) {
  if (device == "cpu") return TierKind::kHost;
  if (device == "nvme") return TierKind::kNvme;
  if (device == "none") return TierKind::kDevice;
  return std::nullopt;
}

// DeepSpeed offloads the optimizer to the CPU from stage 1 on, all else in stage 3.
int64_t LeastStage(PlacedKind kind, TierKind tier) {
  if (tier == TierKind::kDevice) return 0;
  return kind == PlacedKind::kOptimizer && tier == TierKind::kHost ? 1 : 3;
}

void AddNvmePath(ConfigResolver& resolver, const OffloadSection& section) {
  const DeepSpeedValue* given = resolver.Given(section.nvme_path);
  const bool typed = !resolver.flags().nvme_paths.empty();
  if (given == nullptr || given->text.empty()) {
    if (typed) return;
    resolver.report().Refuse(
        section.nvme_path, given == nullptr ? 0 : given->line,
        absl::StrCat(
            given == nullptr ? "is missing" : "is empty",
            ", and the device is nvme; name a directory here or with --nvme_path"));
    return;
  }
  if (typed) {
    resolver.report().Warn(given->written_path, given->line,
                           absl::StrCat("is ", given->text,
                                        "; --nvme_path was given and is used instead"));
    return;
  }
  std::vector<NvmePath>& paths = resolver.config().placement.nvme_paths;
  const NvmePath path{given->text, std::nullopt};
  if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
}

std::optional<TierKind> ReadOffload(ConfigResolver& resolver,
                                    const OffloadSection& section) {
  const DeepSpeedValue* device = resolver.Given(section.device_path);
  if (device == nullptr) return std::nullopt;
  const std::optional<TierKind> tier = TierOfDevice(device->text);
  if (!tier) {
    resolver.report().Refuse(
        device->written_path, device->line,
        absl::StrCat("is \"", device->text,
                     "\"; \"cpu\", \"nvme\", \"none\" and \"auto\" are valid"));
    return std::nullopt;
  }
  const int64_t stage = resolver.config().zero.stage;
  const int64_t least_stage = LeastStage(section.kind, *tier);
  if (stage < least_stage) {
    resolver.report().Refuse(
        device->written_path, device->line,
        absl::StrCat("is ", device->text, ", which DeepSpeed does only from stage ",
                     least_stage, " on, and zero_optimization.stage is ", stage,
                     "; change the stage, or use --placement ", Name(section.kind), "=",
                     Name(*tier), " instead"));
  }
  if (*tier == TierKind::kNvme) AddNvmePath(resolver, section);
  return tier;
}

void RecordPlacement(ConfigResolver& resolver, PlacedKind kind,
                     const DeepSpeedValue* device) {
  const auto index = static_cast<size_t>(kind);
  const std::optional<TierKind>& tier = resolver.config().placement.pins[index];
  const bool typed = resolver.flags().placement[index].has_value();
  resolver.Record(absl::StrCat("--placement ", Name(kind)),
                  tier ? Name(*tier) : "the planner's choice within the budgets",
                  typed                       ? "--placement"
                  : tier && device != nullptr ? resolver.SourceOf(*device)
                                              : "nothing pins it");
}

}  // namespace

void ResolvePlacement(ConfigResolver& resolver) {
  PlacementConfig& placement = resolver.config().placement;
  placement.nvme_paths = resolver.flags().nvme_paths;
  for (const OffloadSection& section : kOffloadSections) {
    placement.pins[static_cast<size_t>(section.kind)] = ReadOffload(resolver, section);
  }
  constexpr auto kWeights = static_cast<size_t>(PlacedKind::kWeights);
  if (placement.pins[kWeights] == TierKind::kNvme) {
    placement.weights_in_host_elements =
        resolver.CountOr("zero_optimization.offload_param.max_in_cpu", 1000000000);
  }
  for (size_t kind = 0; kind < placement.pins.size(); ++kind) {
    const std::optional<TierKind>& typed = resolver.flags().placement[kind];
    if (!typed) continue;
    if (kind == kWeights && *typed != TierKind::kNvme)
      placement.weights_in_host_elements = 0;
    placement.pins[kind] = typed;
    if (*typed == TierKind::kNvme && placement.nvme_paths.empty()) {
      resolver.report().Refuse("--placement", 0,
                               absl::StrCat(Name(static_cast<PlacedKind>(kind)),
                                            "=nvme needs a directory: --nvme_path"));
    }
  }
  for (int kind = 0; kind < kPlacedKindCount; ++kind) {
    const DeepSpeedValue* device =
        kind < 2 ? resolver.Given(kOffloadSections[kind].device_path) : nullptr;
    RecordPlacement(resolver, static_cast<PlacedKind>(kind), device);
  }
  for (const NvmePath& path : placement.nvme_paths) {
    resolver.Record(
        "--nvme_path", path.directory,
        resolver.flags().nvme_paths.empty() ? "the offload sections" : "--nvme_path");
  }
}

void ResolveZero(ConfigResolver& resolver, int64_t hidden) {
  ZeroConfig& zero = resolver.config().zero;
  zero.stage = resolver.CountOr("zero_optimization.stage", 0);
  resolver.Require(zero.stage <= 3, "zero_optimization.stage",
                   static_cast<double>(zero.stage), "0 to 3 are valid");
  const auto size = [&resolver](const char* name, int64_t automatic,
                                int64_t deepspeed) {
    const std::string path = absl::StrCat("zero_optimization.", name);
    return resolver.Count({path.c_str(), nullptr, std::nullopt, automatic, deepspeed});
  };
  // What Trainer fills in for "auto": 0.9 of the square is cut, as it does.
  const int64_t square = hidden * hidden;
  zero.reduce_bucket_size = size("reduce_bucket_size", square, zero.reduce_bucket_size);
  zero.allgather_bucket_size = size("allgather_bucket_size", zero.allgather_bucket_size,
                                    zero.allgather_bucket_size);
  zero.prefetch_bucket_size =
      size("stage3_prefetch_bucket_size",
           static_cast<int64_t>(0.9 * static_cast<double>(square)),
           zero.prefetch_bucket_size);
  zero.param_persistence_threshold =
      size("stage3_param_persistence_threshold", 10 * hidden,
           zero.param_persistence_threshold);
  zero.max_live_parameters = size("stage3_max_live_parameters",
                                  zero.max_live_parameters, zero.max_live_parameters);
  zero.max_reuse_distance = size("stage3_max_reuse_distance", zero.max_reuse_distance,
                                 zero.max_reuse_distance);
  zero.sub_group_size =
      size("sub_group_size", zero.sub_group_size, zero.sub_group_size);
  AioConfig& aio = resolver.config().aio;
  aio.block_size_bytes = resolver.CountOr("aio.block_size", aio.block_size_bytes);
  aio.queue_depth = resolver.CountOr("aio.queue_depth", aio.queue_depth);
  aio.threads = resolver.CountOr("aio.intra_op_parallelism", aio.threads);
}

}  // namespace strata
