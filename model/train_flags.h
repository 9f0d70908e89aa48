/// The flags that decide what is trained and how, as transformers' Trainer names them.
/// Plain data: tools/ fills it from the command line, an application as it likes. What
/// is not set was not typed, which is not the same as typing the default: a typed flag
/// that contradicts the DeepSpeed JSON is refused.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/types.h"

namespace strata {

/// What --placement can pin.
enum class PlacedKind : uint8_t { kWeights, kOptimizer, kGradients, kActivations };
inline constexpr int kPlacedKindCount = 4;
const char* Name(PlacedKind kind);

using PlacementFlags = std::array<std::optional<TierKind>, kPlacedKindCount>;

/// "optimizer=nvme,weights=host". InvalidArgument, naming the piece, for anything else.
absl::StatusOr<PlacementFlags> ParsePlacement(absl::string_view text);

struct NvmePath {
  std::string directory;
  std::optional<int64_t> size_bytes;  // budget; unset: what is free there

  bool operator==(const NvmePath&) const = default;
};

/// "/mnt/a:100GiB" or "/mnt/a". InvalidArgument for an empty directory.
absl::StatusOr<NvmePath> ParseNvmePath(absl::string_view text);

struct TrainFlags {
  // Filled into the DeepSpeed JSON where it says "auto" or nothing.
  std::optional<int64_t> per_device_train_batch_size;
  std::optional<int64_t> gradient_accumulation_steps;
  std::optional<double> learning_rate;
  std::optional<double> weight_decay;
  std::optional<double> max_grad_norm;
  std::optional<double> adam_beta1;
  std::optional<double> adam_beta2;
  std::optional<double> adam_epsilon;
  std::optional<std::string> lr_scheduler_type;
  std::optional<int64_t> warmup_steps;
  std::optional<double> warmup_ratio;
  std::optional<int64_t> max_steps;
  std::optional<bool> bf16;
  std::optional<bool> fp16;
  std::optional<bool> dataloader_drop_last;

  // Without a counterpart in the JSON.
  std::optional<double> num_train_epochs;
  std::optional<int64_t> seed;
  std::optional<int64_t> logging_steps;
  std::optional<int64_t> save_steps;
  std::optional<int64_t> save_total_limit;
  std::optional<int64_t> eval_steps;
  std::optional<int64_t> max_seq_length;
  std::optional<bool> shuffle;
  std::optional<bool> packing;
  std::optional<bool> decay_norms;

  // Over the JSON's offload sections, at any stage.
  PlacementFlags placement;
  std::vector<NvmePath> nvme_paths;
};

}  // namespace strata
