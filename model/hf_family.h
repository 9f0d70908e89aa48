/// What differs between the families of models that a config.json can name: defaults,
/// biases, norms of queries and keys, windows. Everything that a family would compute
/// differently from here is refused by name.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <string>
#include <vector>

#include "model/json_reader.h"
#include "model/transformer_config.h"

namespace strata {

/// A family as transformers' configuration class of that name has it.
struct HfFamily {
  const char* model_type;  // "qwen2"
  const char* models;      // "Qwen2, Qwen2.5": for people
  /// Whether num_key_value_heads may be absent, and is num_attention_heads then. Other
  /// families' classes have a number of their own there that fits no model in use.
  bool kv_heads_may_be_absent = false;
  int64_t head_dim = 0;  // where it is absent; 0: hidden_size / num_attention_heads
};

/// The family of a config.json. InvalidArgument with what to do instead for one that is
/// not supported.
absl::StatusOr<HfFamily> FamilyOf(const JsonValue& root);

/// Biases, norms and windows. InvalidArgument, naming the key, for what is not
/// supported.
absl::Status ReadFamilyKeys(const HfFamily& family, const JsonValue& root,
                            TransformerConfig& config);

}  // namespace strata
