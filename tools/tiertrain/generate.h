/// --generate: prompts in, what the model says after them out. Token ids on both sides;
/// tools/python/generate.py does text.
#pragma once

#include <absl/status/status.h>

#include <atomic>

#include "tools/tiertrain/setup.h"

namespace strata {

/// Reads --generate's file and fills run.generation. InvalidArgument, naming file and
/// line, for a prompt that is empty, has tokens outside of the vocabulary, or is too
/// long for the model.
absl::Status ReadPrompts(TrainingRun& run);

/// One line {"input_ids": [..], "output_ids": [..]} on standard output for each prompt;
/// everything else goes to standard error. Returns the exit code.
int GenerateTexts(TrainingRun& run, const std::atomic<bool>& interrupted);

}  // namespace strata
