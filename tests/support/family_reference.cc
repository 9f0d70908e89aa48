#include "tests/support/family_reference.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "model/hf_config.h"
#include "runtime/base/status.h"
#include "tests/support/fixture_t0.h"

namespace strata {
namespace {

constexpr int kFirstPrompt = 10;  // the fixture's sequence

Family FamilyOf(const nlohmann::json& json,
                const std::vector<int64_t>& prompt_lengths) {
  Family family{.config_json = json["config"].dump(1)};
  const auto config = ParseHfConfig(family.config_json, "family_reference.json");
  STRATA_CHECK(config.ok());
  family.config = config->shape;
  family.parameters = json["parameters"];
  family.logits = json["logits"].get<std::vector<std::vector<double>>>();
  family.losses = json["losses"].get<std::vector<double>>();
  family.norms = json["norms"].get<std::vector<double>>();
  family.continuations = json["continuations"].get<std::vector<std::vector<int32_t>>>();
  for (size_t p = 0; p < prompt_lengths.size(); ++p) {
    family.prompts.push_back(FixtureSequence(kFirstPrompt + static_cast<int>(p),
                                             prompt_lengths[p], family.config.vocab));
  }
  return family;
}

}  // namespace

FamilyReference ReadFamilyReference(const std::vector<std::string>& names) {
  std::ifstream file(STRATA_FAMILY_REFERENCE);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  STRATA_CHECK(json.is_object());
  const nlohmann::json& options = json["options"];
  FamilyReference reference{.options = {.row = options["row"],
                                        .learning_rate = options["learning_rate"],
                                        .max_grad_norm = options["max_grad_norm"],
                                        .max_new_tokens = options["max_new_tokens"]}};
  const auto lengths = options["prompt_lengths"].get<std::vector<int64_t>>();
  for (const auto& [name, family] : json["families"].items()) {
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    reference.families[name] = FamilyOf(family, lengths);
  }
  return reference;
}

}  // namespace strata
