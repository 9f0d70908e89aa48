/// The small model and the token sequences of many tests. All of it comes from an
/// integer hash, so that a program in any language can rebuild it bit for bit; the
/// losses that tests expect of it were computed elsewhere in double precision.
///
/// Element i of tensor NAME is r = hash(i, FNV-1a-32(NAME)) / 2^32 - 0.5, scaled to 0.5
/// r in matrices and biases and 1 + 0.4 r in other vectors. Token j of sequence s is
/// hash(j, 1000 + s) modulo the vocabulary.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer_config.h"

namespace strata {

/// Vocabulary 67, hidden 32, 2 layers, 4 heads, 2 key-value heads; 19,808 parameters.
TransformerConfig FixtureT0();

/// The values before they are rounded to the checkpoint's type.
std::vector<float> FixtureTensor(const TensorShape& tensor);

std::vector<int32_t> FixtureSequence(int sequence, int64_t length, int64_t vocab);

/// config.json in the layout of older transformers, every key present.
std::string FixtureConfigJson(const TransformerConfig& config);

/// Writes config.json and the weights, in config.dtype, as one file or as `shards`
/// files with an index. Creates the directory.
absl::Status WriteFixture(absl::string_view directory, const TransformerConfig& config,
                          int shards);

/// The same as one file, with another text of config.json.
absl::Status WriteFixture(absl::string_view directory, const TransformerConfig& config,
                          const std::string& config_json);

}  // namespace strata
