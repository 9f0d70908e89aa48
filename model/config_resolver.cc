#include "model/config_resolver.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <utility>

namespace strata {

const DeepSpeedValue* ConfigResolver::Given(absl::string_view path) const {
  const DeepSpeedValue* value = file_.Find(path);
  return value == nullptr || value->is_auto ? nullptr : value;
}

template <typename T>
T ConfigResolver::Resolve(const KeyAndFlag<T>& key, T (*read)(const DeepSpeedValue&)) {
  const DeepSpeedValue* value = file_.Find(key.path);
  if (value != nullptr && !value->is_auto) {
    const T given = read(*value);
    if (key.typed && *key.typed != given) {
      RefuseConflict(*value, key.flag, Text(*key.typed));
    }
    Record(key.path, Text(given), SourceOf(*value));
    return given;
  }
  if (key.typed) {
    Record(key.path, Text(*key.typed), key.flag);
    return *key.typed;
  }
  const bool trainer_decides = value != nullptr || !key.default_of_deepspeed;
  const T chosen = trainer_decides ? key.default_of_trainer : *key.default_of_deepspeed;
  Record(key.path, Text(chosen), trainer_decides ? kTrainerDefault : kDeepSpeedDefault);
  return chosen;
}

double ConfigResolver::Number(const KeyAndFlag<double>& key) {
  return Resolve<double>(key, [](const DeepSpeedValue& value) { return value.number; });
}

int64_t ConfigResolver::Count(const KeyAndFlag<int64_t>& key) {
  return Resolve<int64_t>(key,
                          [](const DeepSpeedValue& value) { return value.integer; });
}

bool ConfigResolver::Bool(const KeyAndFlag<bool>& key) {
  return Resolve<bool>(key, [](const DeepSpeedValue& value) { return value.boolean; });
}

double ConfigResolver::NumberOr(const char* path, double default_value) {
  return Number({path, nullptr, std::nullopt, default_value, default_value});
}

int64_t ConfigResolver::CountOr(const char* path, int64_t default_value) {
  return Count({path, nullptr, std::nullopt, default_value, default_value});
}

bool ConfigResolver::BoolOr(const char* path, bool default_value) {
  return Bool({path, nullptr, std::nullopt, default_value, default_value});
}

void ConfigResolver::Record(absl::string_view path, std::string value,
                            std::string source) {
  out_.values.push_back({std::string(path), std::move(value), std::move(source)});
}

void ConfigResolver::Require(bool valid, const char* path, double value,
                             absl::string_view expectation) {
  if (valid) return;
  const DeepSpeedValue* given = Given(path);
  report().Refuse(given == nullptr ? path : given->written_path,
                  given == nullptr ? 0 : given->line,
                  absl::StrCat("is ", Text(value), "; ", expectation));
}

void ConfigResolver::RefuseConflict(const DeepSpeedValue& value, absl::string_view flag,
                                    absl::string_view typed) {
  report().Refuse(value.written_path, value.line,
                  absl::StrCat("is ", value.text, " but ", flag, " is ", typed,
                               "; leave one of them out, or write \"auto\" here"));
}

std::string ConfigResolver::SourceOf(const DeepSpeedValue& value) const {
  return absl::StrCat(file_.name(), ":", value.line);
}

std::string ConfigResolver::Text(double value) {
  return absl::StrFormat("%.10g", value);
}
std::string ConfigResolver::Text(int64_t value) { return absl::StrCat(value); }
std::string ConfigResolver::Text(bool value) { return value ? "true" : "false"; }

}  // namespace strata
