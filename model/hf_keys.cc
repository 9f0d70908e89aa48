#include "model/hf_keys.h"

#include <absl/strings/str_cat.h>

#include <optional>

namespace strata {

const JsonValue* Present(const JsonValue& object, absl::string_view key) {
  const JsonValue* value = object.Find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

absl::Status KeyError(absl::string_view key, const JsonValue& value,
                      absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat(key, " is ", value.Describe(), " (line ", value.line, "): ", why));
}

absl::Status ReadCount(const JsonValue& object, absl::string_view key, int64_t& out) {
  const JsonValue* value = Present(object, key);
  if (value == nullptr) return absl::OkStatus();
  const std::optional<int64_t> count = value->AsInteger();
  // The limit keeps every product of three sizes within 63 bits.
  if (!count || *count < 1 || *count > (int64_t{1} << 20) * 16) {
    return KeyError(key, *value, "a positive number below 16 million is expected");
  }
  out = *count;
  return absl::OkStatus();
}

absl::Status ReadRequiredCount(const JsonValue& object, absl::string_view key,
                               int64_t& out) {
  if (Present(object, key) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(key, " is missing"));
  }
  return ReadCount(object, key, out);
}

absl::Status ReadPositive(const JsonValue& object, absl::string_view key, double& out) {
  const JsonValue* value = Present(object, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_number() || !(value->number > 0)) {
    return KeyError(key, *value, "a positive number is expected");
  }
  out = value->number;
  return absl::OkStatus();
}

absl::Status ReadBool(const JsonValue& object, absl::string_view key, bool& out) {
  const JsonValue* value = Present(object, key);
  if (value == nullptr) return absl::OkStatus();
  if (!value->is_bool()) return KeyError(key, *value, "true or false is expected");
  out = value->boolean;
  return absl::OkStatus();
}

}  // namespace strata
