#include "model/generation.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "model/batch.h"
#include "model/json_reader.h"
#include "model/permutation.h"
#include "model/text_file.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

// Lengths in between would only make more shapes for the libraries to prepare.
constexpr int64_t kLengthStep = 16;  // tokens

int32_t Likeliest(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// The token at which the summed probabilities pass `point` of [0, 1).
int32_t Draw(std::span<const float> logits, double temperature, double point) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  const auto weight = [&](float logit) {
    return std::exp((static_cast<double>(logit) - largest) / temperature);
  };
  double sum = 0;
  for (const float logit : logits) sum += weight(logit);
  double left = point * sum;
  for (size_t token = 0; token < logits.size(); ++token) {
    left -= weight(logits[token]);
    if (left < 0) return static_cast<int32_t>(token);
  }
  return Likeliest(logits);  // rounding only
}

absl::StatusOr<std::vector<int32_t>> ParseEndTokens(const JsonValue& root,
                                                    absl::string_view path) {
  std::vector<int32_t> tokens;
  const JsonValue* value = root.Find("eos_token_id");
  if (value == nullptr || value->is_null()) return tokens;
  const std::vector<JsonValue> one = {*value};
  for (const JsonValue& item : value->is_array() ? value->items : one) {
    const std::optional<int64_t> token = item.AsInteger();
    if (!token || *token < 0 || *token > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": eos_token_id is ", item.Describe(), ": a token id is expected"));
    }
    tokens.push_back(static_cast<int32_t>(*token));
  }
  return tokens;
}

/// A sequence that still grows.
struct Growing {
  size_t prompt = 0;
  std::vector<int32_t> tokens;  // prompt and what came since
};

class Generator {
 public:
  Generator(Trainer& trainer, int64_t vocab, const GenerationOptions& options,
            GenerationResult& result)
      : trainer_(trainer), vocab_(vocab), options_(options), result_(result) {}

  /// Until all of them have ended. At most as many as a micro-batch has.
  absl::Status Run(std::vector<Growing> sequences,
                   const std::atomic<bool>& interrupted) {
    while (!sequences.empty()) {
      if (interrupted) {
        result_.interrupted = true;
        return absl::OkStatus();
      }
      STRATA_ASSIGN_OR_RETURN(const std::vector<float> logits, Pass(sequences));
      for (size_t s = 0; s < sequences.size(); ++s) {
        Take(sequences[s], std::span(logits).subspan(s * static_cast<size_t>(vocab_),
                                                     static_cast<size_t>(vocab_)));
      }
      std::erase_if(sequences,
                    [this](const Growing& sequence) { return HasEnded(sequence); });
    }
    return absl::OkStatus();
  }

 private:
  /// Logits of the last token of each sequence.
  absl::StatusOr<std::vector<float>> Pass(const std::vector<Growing>& sequences) {
    int64_t longest = 0;
    for (const Growing& sequence : sequences) {
      longest = std::max(longest, static_cast<int64_t>(sequence.tokens.size()));
    }
    const MicroBatchShape shape = {
        static_cast<int64_t>(sequences.size()),
        std::min((longest + kLengthStep - 1) / kLengthStep * kLengthStep,
                 trainer_.model().micro_batch.length)};
    Batch batch(shape.sequences, shape.length);
    std::vector<int32_t> rows;
    for (int64_t s = 0; s < shape.sequences; ++s) {
      const std::vector<int32_t>& tokens = sequences[static_cast<size_t>(s)].tokens;
      const auto size = static_cast<int64_t>(tokens.size());
      batch.Append(s, {.tokens = tokens, .labels = tokens, .document_ends = {size}});
      rows.push_back(static_cast<int32_t>(s * shape.length + size - 1));
    }
    std::vector<float> logits(rows.size() * static_cast<size_t>(vocab_));
    const auto start = std::chrono::steady_clock::now();
    STRATA_RETURN_IF_ERROR(
        trainer_.Logits({batch.tokens, batch.targets, batch.positions, batch.documents},
                        {.shape = shape, .rows = rows, .values = logits}));
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
    result_.seconds += time.count();
    ++result_.passes;
    return logits;
  }

  void Take(Growing& sequence, std::span<const float> logits) {
    int32_t token = Likeliest(logits);
    if (options_.temperature > 0) {
      const uint64_t stream = MixBits(MixBits(options_.seed + 1) ^ sequence.prompt);
      const uint64_t draw = MixBits(stream + sequence.tokens.size());
      const double point = static_cast<double>(draw >> 11) * 0x1p-53;  // of [0, 1)
      token = Draw(logits, options_.temperature, point);
    }
    sequence.tokens.push_back(token);
    result_.tokens[sequence.prompt].push_back(token);
  }

  bool HasEnded(const Growing& sequence) const {
    const std::vector<int32_t>& ends = options_.end_tokens;
    return static_cast<int64_t>(result_.tokens[sequence.prompt].size()) >=
               options_.max_new_tokens ||
           std::find(ends.begin(), ends.end(), sequence.tokens.back()) != ends.end();
  }

  Trainer& trainer_;
  const int64_t vocab_;
  const GenerationOptions& options_;
  GenerationResult& result_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> EndTokens(absl::string_view directory) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    const std::string path = absl::StrCat(directory, "/", name);
    const absl::StatusOr<std::string> text = ReadTextFile(path);
    if (absl::IsNotFound(text.status())) continue;
    STRATA_RETURN_IF_ERROR(text.status());
    STRATA_ASSIGN_OR_RETURN(const JsonValue root, ParseJson(*text, path));
    STRATA_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, ParseEndTokens(root, path));
    if (!tokens.empty()) return tokens;
  }
  return std::vector<int32_t>();
}

absl::StatusOr<GenerationResult> Generate(Trainer& trainer,
                                          std::span<const std::vector<int32_t>> prompts,
                                          int64_t vocab,
                                          const GenerationOptions& options,
                                          const std::atomic<bool>& interrupted) {
  const MicroBatchShape& shape = trainer.model().micro_batch;
  GenerationResult result;
  result.tokens.resize(prompts.size());
  Generator generator(trainer, vocab, options, result);
  std::vector<Growing> together;
  for (size_t p = 0; p < prompts.size() && options.max_new_tokens > 0; ++p) {
    STRATA_CHECK(!prompts[p].empty() &&
                 static_cast<int64_t>(prompts[p].size()) + options.max_new_tokens <=
                     shape.length + 1);  // nobody asks what follows the last one
    together.push_back({p, prompts[p]});
    const bool full = static_cast<int64_t>(together.size()) == shape.sequences;
    if (!full && p + 1 < prompts.size()) continue;
    STRATA_RETURN_IF_ERROR(generator.Run(std::move(together), interrupted));
    together.clear();
  }
  return result;
}

}  // namespace strata
