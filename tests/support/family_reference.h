/// What transformers computes for a tiny model of each family that Strata knows
/// (tests/integration/make_family_reference.py), and that model as a directory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/transformer_config.h"

namespace strata {

struct Family {
  std::string config_json;  // as transformers wrote it
  TransformerConfig config;
  int64_t parameters = 0;
  std::vector<std::vector<double>> logits;  // of the fixture's sequence 0: [row][vocab]
  std::vector<double> losses, norms;        // of steps on sequences 0, 1, ...
  std::vector<std::vector<int32_t>> prompts, continuations;
};

/// How the steps were made, one sequence each.
struct FamilyOptions {
  int64_t row = 0;  // tokens of a sequence
  double learning_rate = 0, max_grad_norm = 0;
  int64_t max_new_tokens = 0;
};

struct FamilyReference {
  FamilyOptions options;
  std::map<std::string, Family> families;
};

/// Of the families `names`; all of them if empty. CHECKs that the file can be read and
/// that the configurations are accepted.
FamilyReference ReadFamilyReference(const std::vector<std::string>& names);

}  // namespace strata
