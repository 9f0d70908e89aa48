#include "tools/tiertrain/generate.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>

#include "model/jsonl_source.h"
#include "runtime/base/status.h"
#include "tools/cli/program.h"
#include "tools/tiertrain/report.h"

namespace strata {
namespace {

absl::Status CheckPrompt(const Sample& prompt, const TransformerConfig& model,
                         int64_t max_new_tokens) {
  if (prompt.tokens.empty()) return absl::InvalidArgumentError("the prompt is empty");
  for (const int32_t token : prompt.tokens) {
    if (token < model.vocab) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", token, " is none of the model's ", model.vocab));
  }
  const int64_t length = prompt.size() + max_new_tokens;
  if (model.sliding_window > 0 && length > model.sliding_window) {
    return WithMend(
        absl::InvalidArgumentError(absl::StrCat(
            "the prompt has ", prompt.size(), " tokens; with ", max_new_tokens,
            " new ones that is more than the model's sliding_window, ",
            model.sliding_window, ", which is not supported")),
        "lower --max_new_tokens or shorten the prompt");
  }
  if (length <= model.max_position) return absl::OkStatus();
  return WithMend(
      absl::InvalidArgumentError(absl::StrCat(
          "the prompt has ", prompt.size(), " tokens; with ", max_new_tokens,
          " new ones that is more than the model's max_position_embeddings, ",
          model.max_position)),
      "lower --max_new_tokens or shorten the prompt");
}

// Prompts that were finished or begun, in order.
absl::Status WriteTexts(const GenerationTask& task, const GenerationResult& result) {
  std::string text;
  for (size_t p = 0; p < task.prompts.size(); ++p) {
    absl::StrAppend(&text, "{\"input_ids\": [", absl::StrJoin(task.prompts[p], ", "),
                    "], \"output_ids\": [", absl::StrJoin(result.tokens[p], ", "),
                    "]}\n");
  }
  return cli::WriteOutput("-", text);
}

}  // namespace

absl::Status ReadPrompts(TrainingRun& run) {
  const std::string& path = *run.command.prompt_file;
  const TransformerConfig& model = run.model_config.shape;
  GenerationTask task;
  task.options.max_new_tokens = run.command.max_new_tokens.value_or(64);
  task.options.temperature = run.command.temperature.value_or(0);
  task.options.seed = static_cast<uint64_t>(run.config.seed);
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<JsonlSource> source,
                          JsonlSource::Open(path));
  Sample prompt;
  int64_t longest = 0;
  for (int64_t i = 0; i < source->size(); ++i) {
    STRATA_RETURN_IF_ERROR(source->Read(i, prompt));
    STRATA_RETURN_IF_ERROR(Annotate(
        CheckPrompt(prompt, model, task.options.max_new_tokens), source->Describe(i)));
    longest = std::max(longest, prompt.size());
    task.prompts.push_back(prompt.tokens);
  }
  if (task.prompts.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--generate ", path, " holds no prompt"));
  }
  task.rows = std::min(run.config.batch.micro_batch_size,
                       static_cast<int64_t>(task.prompts.size()));
  task.length = longest + task.options.max_new_tokens;
  STRATA_ASSIGN_OR_RETURN(task.options.end_tokens,
                          EndTokens(run.command.model_directory));
  run.generation = std::move(task);
  return absl::OkStatus();
}

int GenerateTexts(TrainingRun& run, const std::atomic<bool>& interrupted) {
  if (absl::Status status = StartTrainer(run); !status.ok()) return cli::Refuse(status);
  const GenerationTask& task = *run.generation;
  std::fprintf(stderr, "%s\n",
               ExplainPlan(run.trainer->plan(), run.parameters).c_str());
  const absl::StatusOr<GenerationResult> result =
      Generate(*run.trainer, task.prompts, run.model_config.shape.vocab, task.options,
               interrupted);
  if (!result.ok()) return cli::Fail(result.status());
  if (absl::Status status = WriteTexts(task, *result); !status.ok())
    return cli::Fail(status);
  size_t tokens = 0;
  for (const std::vector<int32_t>& text : result->tokens) tokens += text.size();
  std::fprintf(stderr, "%s%zu tokens in %ld passes, %.1f s, %.2f tokens/s\n",
               MemoryTable(run).c_str(), tokens, static_cast<long>(result->passes),
               result->seconds,
               result->seconds > 0 ? static_cast<double>(tokens) / result->seconds : 0);
  return result->interrupted ? cli::kInterrupted : cli::kDone;
}

}  // namespace strata
