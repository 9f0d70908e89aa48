/// Continues token sequences with a model whose weights pass through the tiers.
///
/// One pass gives every unfinished sequence its next token: all of them go through each
/// layer together while its weights are there. The whole prefix is computed again for
/// each token. That costs arithmetic and no state: what a pass waits for is the
/// weights, which come over the link once for all sequences.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "model/trainer.h"

namespace strata {

struct GenerationOptions {
  int64_t max_new_tokens = 64;
  /// 0: the likeliest token, the first of equals. Otherwise drawn from softmax(logits /
  /// temperature); a draw depends on seed, prompt and position only.
  double temperature = 0;
  uint64_t seed = 42;
  std::vector<int32_t> end_tokens;  // the last token of a text, where one comes
};

struct GenerationResult {
  std::vector<std::vector<int32_t>> tokens;  // new ones of each prompt, in order
  int64_t passes = 0;
  double seconds = 0;        // of the passes
  bool interrupted = false;  // the tokens are what there was by then
};

/// The tokens that end a text by `directory`'s generation_config.json, or by its
/// config.json where that says nothing: eos_token_id, one or a list. Empty if neither
/// does.
absl::StatusOr<std::vector<int32_t>> EndTokens(absl::string_view directory);

/// `trainer` was made with `evaluates` and one micro-batch; as many sequences go
/// through at once as that has, the next ones after them. REQUIRES: prompts that are
/// not empty, have tokens of the vocabulary, and fit the micro-batch's length with
/// max_new_tokens behind them.
absl::StatusOr<GenerationResult> Generate(Trainer& trainer,
                                          std::span<const std::vector<int32_t>> prompts,
                                          int64_t vocab,
                                          const GenerationOptions& options,
                                          const std::atomic<bool>& interrupted);

}  // namespace strata
