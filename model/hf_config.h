/// config.json, where a Hugging Face directory keeps the shape of its model. What a
/// config asks for and we would compute differently is refused by name: a model that
/// trains on the wrong formula looks almost right.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

#include "model/transformer_config.h"
#include "runtime/base/types.h"

namespace strata {

/// A config.json: what it means, and all of its text for the export.
struct HfConfig {
  TransformerConfig shape;
  std::string json;
};

/// Parses the text of a config.json; `name` is for messages. InvalidArgument, naming
/// the key, for what is missing, contradictory or not supported.
absl::StatusOr<HfConfig> ParseHfConfig(absl::string_view text, absl::string_view name);

/// Reads `directory`/config.json.
absl::StatusOr<HfConfig> LoadHfConfig(absl::string_view directory);

/// config.json for an export in `dtype`: every key of the original stays, and the
/// rotary and dtype keys are written as both old and new transformers read them (each
/// ignores the other's and would fall back to a default in silence).
absl::StatusOr<std::string> ExportHfConfig(const HfConfig& config, DType dtype);

}  // namespace strata
