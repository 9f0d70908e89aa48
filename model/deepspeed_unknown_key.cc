#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "model/deepspeed_schema.h"

namespace strata {
namespace {

constexpr int kMisspellingEditsMax = 2;

struct Pair {
  const char* written;
  const char* meant;
};

// What other programs call these keys.
constexpr Pair kSynonyms[] = {
    {"batch_size", "train_batch_size"},
    {"global_batch_size", "train_batch_size"},
    {"micro_batch_size", "train_micro_batch_size_per_gpu"},
    {"micro_batch_size_per_gpu", "train_micro_batch_size_per_gpu"},
    {"train_micro_batch_size", "train_micro_batch_size_per_gpu"},
    {"per_device_train_batch_size", "train_micro_batch_size_per_gpu"},
    {"accumulation_steps", "gradient_accumulation_steps"},
    {"grad_accum_steps", "gradient_accumulation_steps"},
    {"gradient_accumulation", "gradient_accumulation_steps"},
    {"grad_clip", "gradient_clipping"},
    {"clip_grad", "gradient_clipping"},
    {"clip_grad_norm", "gradient_clipping"},
    {"grad_clipping", "gradient_clipping"},
    {"max_grad_norm", "gradient_clipping"},
    {"learning_rate", "optimizer.params.lr"},
    {"epsilon", "optimizer.params.eps"},
    {"adam_epsilon", "optimizer.params.eps"},
    {"beta1", "optimizer.params.betas"},
    {"beta2", "optimizer.params.betas"},
    {"adam_beta1", "optimizer.params.betas"},
    {"adam_beta2", "optimizer.params.betas"},
    {"wd", "optimizer.params.weight_decay"},
    {"lr_scheduler", "scheduler"},
    {"lr_scheduler_type", "scheduler.type"},
    {"warmup_steps", "scheduler.params.warmup_num_steps"},
    {"total_steps", "scheduler.params.total_num_steps"},
    {"max_steps", "scheduler.params.total_num_steps"},
    {"zero", "zero_optimization"},
    {"zero3", "zero_optimization"},
    {"zero_stage", "zero_optimization.stage"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"mixed_precision", "bf16.enabled"},
    {"precision", "bf16.enabled"},
    {"dtype", "bf16.enabled"},
};

// Keys and sections of other files that have no namesake here.
constexpr Pair kNearest[] = {
    {"comms_config", "comms_logger"},
    {"monitor_config", "csv_monitor, tensorboard or wandb, at the top level"},
    {"compile.disable", "compile.deepcompile"},
    {"compile.backend", "compile.deepcompile"},
};

// Names that several sections have, so that one of them elsewhere says nothing.
constexpr std::array kCommonNames = {"type", "params", "enabled", "device", "profile"};

int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int substituted = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

absl::string_view SectionOf(absl::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == absl::string_view::npos ? "" : path.substr(0, dot);
}

absl::string_view LastName(absl::string_view path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1 is 0
}

// A key of the same name in another section, one that changes numbers if there is one.
const KeySpec* FindMisplaced(absl::string_view name) {
  if (std::find(kCommonNames.begin(), kCommonNames.end(), name) != kCommonNames.end()) {
    return nullptr;
  }
  const KeySpec* found = nullptr;
  for (const KeySpec& key : DeepSpeedKeys()) {
    if (LastName(key.path) != name) continue;
    if (found == nullptr ||
        (!ChangesNumbers(found->path) && ChangesNumbers(key.path))) {
      found = &key;
    }
  }
  return found;
}

}  // namespace

bool ChangesNumbers(absl::string_view path) {
  static constexpr std::array kRoots = {"train_batch_size",
                                        "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps",
                                        "gradient_clipping",
                                        "optimizer",
                                        "scheduler",
                                        "fp16",
                                        "bf16",
                                        "data_types",
                                        "dataloader_drop_last"};
  if (path == "zero_optimization") return true;
  const absl::string_view root = path.substr(0, path.find('.'));
  return std::find(kRoots.begin(), kRoots.end(), root) != kRoots.end();
}

UnknownKey ExplainUnknownKey(absl::string_view section, absl::string_view name) {
  const std::string path = absl::StrCat(section, section.empty() ? "" : ".", name);
  for (const Pair& pair : kNearest) {
    if (path == pair.written) return {pair.meant, false};
  }
  for (const Pair& pair : kSynonyms) {
    if (name == pair.written) return {pair.meant, true};
  }
  if (const KeySpec* misplaced = FindMisplaced(name)) {
    return {misplaced->path, ChangesNumbers(misplaced->path)};
  }
  const std::string lower = absl::AsciiStrToLower(name);
  const KeySpec* nearest = nullptr;
  int least = 0;
  for (const KeySpec& key : DeepSpeedKeys()) {
    if (SectionOf(key.path) != section) continue;
    const int edits = EditDistance(lower, LastName(key.path));
    if (nearest == nullptr || edits < least) {
      nearest = &key;
      least = edits;
    }
  }
  if (nearest == nullptr) return {std::string(section), false};
  const bool meant = least <= kMisspellingEditsMax && ChangesNumbers(nearest->path);
  return {nearest->path, meant};
}

}  // namespace strata
