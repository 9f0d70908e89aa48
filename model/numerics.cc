#include "model/numerics.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/status.h"

namespace strata {
namespace {

using Json = nlohmann::ordered_json;

uint64_t Fnv1a(absl::string_view text, uint64_t hash) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  return hash;
}

const NumericsEntry* FindEntry(const NumericsProfile& profile, absl::string_view name) {
  for (const NumericsEntry& entry : profile.entries) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

absl::Status AddEntries(const Json& json, const char* key, bool decides_bits,
                        absl::string_view name, NumericsProfile& profile) {
  const auto section = json.find(key);
  if (section == json.end() || !section->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": there is no object '", key, "'"));
  }
  for (const auto& [entry, value] : section->items()) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": ", key, ".", entry, " is no text"));
    }
    profile.entries.push_back({entry, value.get<std::string>(), decides_bits});
  }
  return absl::OkStatus();
}

}  // namespace

const std::string* NumericsProfile::Find(absl::string_view name) const {
  const NumericsEntry* entry = FindEntry(*this, name);
  return entry == nullptr ? nullptr : &entry->value;
}

std::string NumericsProfile::Hash() const {
  std::set<std::string> lines;
  for (const NumericsEntry& entry : entries) {
    if (entry.decides_bits) {
      lines.insert(absl::StrCat(entry.name, "=", entry.value, "\n"));
    }
  }
  uint64_t hash = 0xCBF29CE484222325u;
  for (const std::string& line : lines) hash = Fnv1a(line, hash);
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

NumericsProfile NumericsOf(const ModelShape& model, const Kernels& kernels) {
  const bool split = model.dtype != DType::kF32;
  const MicroBatchShape& shape = model.micro_batch;
  NumericsProfile profile;
  profile.entries = {
      {"weight", Name(model.dtype)},
      {"state", split ? "I16 remainder, F32 moments" : "F32 moments"},
      {"gradient", Name(model.dtype)},
      {"micro_batch.rows", absl::StrCat(shape.sequences)},
      {"micro_batch.length", absl::StrCat(shape.length)},
      {"norm.tile_elements", absl::StrCat(kTileElements)},
  };
  for (const auto& layer : model.layers) {
    const std::string choice = layer->Numerics(shape);
    if (!choice.empty()) profile.entries.push_back({layer->name(), choice});
  }
  for (NumericsEntry& entry : kernels.Numerics(model.dtype)) {
    profile.entries.push_back(std::move(entry));
  }
  return profile;
}

std::string FormatNumerics(const NumericsProfile& profile) {
  std::string text = absl::StrCat("numerics profile ", profile.Hash(), "\n");
  for (const NumericsEntry& entry : profile.entries) {
    absl::StrAppend(&text, "  ", entry.name, ": ", entry.value,
                    entry.decides_bits ? "\n" : " (decides no bit here)\n");
  }
  return text;
}

Json ToJson(const NumericsProfile& profile) {
  Json decides = Json::object(), informs = Json::object();
  for (const NumericsEntry& entry : profile.entries) {
    (entry.decides_bits ? decides : informs)[entry.name] = entry.value;
  }
  return {{"hash", profile.Hash()}, {"decides", decides}, {"informs", informs}};
}

absl::StatusOr<NumericsProfile> NumericsFromJson(const Json& json,
                                                 absl::string_view name) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": this is no JSON object"));
  }
  NumericsProfile profile;
  STRATA_RETURN_IF_ERROR(AddEntries(json, "decides", true, name, profile));
  STRATA_RETURN_IF_ERROR(AddEntries(json, "informs", false, name, profile));
  const auto hash = json.find("hash");
  if (hash == json.end() || *hash != profile.Hash()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": hash is not ", profile.Hash(),
                     ", that of its entries: it was changed or damaged"));
  }
  return profile;
}

absl::StatusOr<NumericsProfile> ParseNumerics(absl::string_view text,
                                              absl::string_view name) {
  return NumericsFromJson(
      Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false), name);
}

std::vector<std::string> NumericsDifferences(const NumericsProfile& there,
                                             const NumericsProfile& here) {
  std::vector<std::string> differences;
  const auto value = [](const NumericsEntry* entry) {
    return entry == nullptr ? "missing" : absl::StrCat("'", entry->value, "'");
  };
  const auto compare = [&](const NumericsEntry* a, const NumericsEntry* b) {
    const bool decides =
        (a != nullptr && a->decides_bits) || (b != nullptr && b->decides_bits);
    if (!decides || (a != nullptr && b != nullptr && a->value == b->value)) return;
    differences.push_back(absl::StrCat((a != nullptr ? a : b)->name, " is ", value(a),
                                       " there and ", value(b), " here"));
  };
  for (const NumericsEntry& entry : there.entries) {
    compare(&entry, FindEntry(here, entry.name));
  }
  for (const NumericsEntry& entry : here.entries) {
    if (FindEntry(there, entry.name) == nullptr) compare(nullptr, &entry);
  }
  return differences;
}

absl::Status CheckNumerics(const NumericsProfile& there, const NumericsProfile& here,
                           absl::string_view name) {
  const std::vector<std::string> differences = NumericsDifferences(there, here);
  if (differences.empty()) return absl::OkStatus();
  return WithMend(absl::FailedPreconditionError(absl::StrCat(
                      name,
                      " was made with other numerics, so that the run would "
                      "not give the same bits: ",
                      absl::StrJoin(differences, "; "))),
                  "run it on a machine of the same kind with the same settings");
}

}  // namespace strata
