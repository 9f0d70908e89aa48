#include "tools/tierplan/step_size.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kUsualTokensPerStep = 16384;
constexpr int64_t kUsualLength = 2048;
constexpr int64_t kMicroBatchTokensMax = 4096;

/// Is a part of the batch in the JSON, or does it follow from what is?
bool IsInFile(const ConfigResolution& resolution, absl::string_view path) {
  if (resolution.deepspeed_name.empty()) return false;
  for (const ResolvedValue& value : resolution.values) {
    if (value.path == path) {
      return absl::StrContains(value.source, resolution.deepspeed_name) ||
             absl::StartsWith(value.source, "train_batch_size");
    }
  }
  return false;
}

absl::Status Contradiction(int64_t tokens, absl::string_view what) {
  return WithMend(absl::InvalidArgumentError(
                      absl::StrCat("--tokens_per_step is ", tokens, ", ", what)),
                  "leave --tokens_per_step out, or make the numbers agree");
}

/// The largest number of rows with at most kMicroBatchTokensMax tokens that divides
/// `total_rows`.
int64_t UsualRows(int64_t total_rows, int64_t length) {
  int64_t rows = std::clamp<int64_t>(kMicroBatchTokensMax / length, 1, total_rows);
  while (total_rows % rows != 0) --rows;
  return rows;
}

}  // namespace

absl::StatusOr<StepSize> ChooseStepSize(const PlanCommand& command,
                                        const ConfigResolution& resolution,
                                        int64_t max_position) {
  const BatchConfig& batch = resolution.config.batch;
  const bool has_rows = command.flags.per_device_train_batch_size ||
                        IsInFile(resolution, "train_micro_batch_size_per_gpu");
  const bool has_steps = command.flags.gradient_accumulation_steps ||
                         IsInFile(resolution, "gradient_accumulation_steps");
  StepSize size;
  size.length = std::min(kUsualLength, max_position);
  if (command.tokens_per_step)
    size.length = std::min(size.length, *command.tokens_per_step);
  if (command.flags.max_seq_length) size.length = *command.flags.max_seq_length;
  if (size.length > max_position) {
    return WithMend(absl::InvalidArgumentError(
                        absl::StrCat("--max_seq_length is ", size.length,
                                     ", the model has ", max_position, " positions")),
                    absl::StrCat("take at most ", max_position));
  }
  const bool is_open = !has_rows || !has_steps;
  if (!command.tokens_per_step && !is_open) {
    size.rows = batch.micro_batch_size;
    size.micro_batches = batch.accumulation_steps;
    return size;
  }
  const int64_t unit = size.length * (has_rows ? batch.micro_batch_size : 1) *
                       (has_steps ? batch.accumulation_steps : 1);
  const int64_t tokens = command.tokens_per_step.value_or(
      std::max(kUsualTokensPerStep / unit, int64_t{1}) * unit);
  if (tokens % unit != 0 || (!is_open && tokens != unit)) {
    return Contradiction(
        tokens, absl::StrCat("but ", has_rows ? batch.micro_batch_size : 1, " rows x ",
                             has_steps ? batch.accumulation_steps : 1,
                             " micro-batches x ", size.length, " tokens make ", unit));
  }
  const int64_t factor = tokens / unit;  // of what is open
  size.rows = has_rows    ? batch.micro_batch_size
              : has_steps ? factor
                          : UsualRows(factor, size.length);
  size.micro_batches = tokens / (size.length * size.rows);
  return size;
}

}  // namespace strata
