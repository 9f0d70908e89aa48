#include "model/deepspeed_value.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>

#include <cmath>

namespace strata {
namespace {

// Text that holds a number or a truth value, as that value.
std::optional<JsonValue> Unquote(const JsonValue& json, KeyType type) {
  JsonValue value;
  value.line = json.line;
  value.text = std::string(absl::StripAsciiWhitespace(json.text));
  if (type == KeyType::kBool) {
    value.kind = JsonValue::Kind::kBool;
    if (!absl::SimpleAtob(value.text, &value.boolean)) return std::nullopt;
    return value;
  }
  value.kind = JsonValue::Kind::kNumber;
  const bool read = absl::SimpleAtod(value.text, &value.number);
  return read && std::isfinite(value.number) ? std::optional(value) : std::nullopt;
}

const char* Expectation(KeyType type) {
  switch (type) {
    case KeyType::kCount:
      return "a whole number from 0 on is expected";
    case KeyType::kInteger:
      return "a whole number is expected";
    case KeyType::kNumber:
      return "a number is expected";
    case KeyType::kBool:
      return "true or false is expected";
    case KeyType::kText:
      return "a text is expected";
    case KeyType::kNumbers:
      return "a list of numbers is expected";
    default:
      return "an object is expected";
  }
}

class Converter {
 public:
  Converter(KeyType type, absl::string_view path, ConfigReport& report)
      : type_(type), path_(path), report_(report) {}

  std::optional<DeepSpeedValue> Convert(const JsonValue& json) {
    value_.written_path = std::string(path_);
    value_.line = json.line;
    value_.text = json.is_string() ? json.text : json.Describe();
    if (json.is_string() && json.text == "auto") {
      value_.is_auto = true;
      return value_;
    }
    if (json.is_string() && type_ != KeyType::kText) return ConvertText(json);
    return ConvertPlain(json);
  }

 private:
  std::optional<DeepSpeedValue> Refuse(const JsonValue& json) {
    report_.Refuse(path_, json.line,
                   absl::StrCat("is ", json.Describe(), "; ", Expectation(type_)));
    return std::nullopt;
  }

  std::optional<DeepSpeedValue> ConvertText(const JsonValue& json) {
    const std::optional<JsonValue> bare = Unquote(json, type_);
    if (type_ == KeyType::kNumbers || !bare) return Refuse(json);
    std::optional<DeepSpeedValue> converted = ConvertPlain(*bare);
    if (converted) {
      report_.Warn(
          path_, json.line,
          absl::StrCat("is the text ", json.Describe(), ", read as ", bare->text));
    }
    return converted;
  }

  std::optional<DeepSpeedValue> ConvertPlain(const JsonValue& json) {
    switch (type_) {
      case KeyType::kCount:
      case KeyType::kInteger:
        return ConvertInteger(json);
      case KeyType::kNumber:
        if (!json.is_number()) return Refuse(json);
        value_.number = json.number;
        return value_;
      case KeyType::kBool:
        if (!json.is_bool()) return Refuse(json);
        value_.boolean = json.boolean;
        return value_;
      case KeyType::kText:
        if (!json.is_string()) return Refuse(json);
        return value_;
      case KeyType::kNumbers:
        return ConvertNumbers(json);
      default:
        return value_;
    }
  }

  std::optional<DeepSpeedValue> ConvertInteger(const JsonValue& json) {
    std::optional<int64_t> integer = json.AsInteger();
    if (!integer && json.is_number() && std::abs(json.number) < 1e15) {
      integer = static_cast<int64_t>(json.number);
      report_.Warn(
          path_, json.line,
          absl::StrCat("is ", json.text, " where a whole number is expected, cut to ",
                       *integer));
    }
    if (!integer || (type_ == KeyType::kCount && json.number < 0)) return Refuse(json);
    value_.integer = *integer;
    value_.number = static_cast<double>(*integer);
    return value_;
  }

  std::optional<DeepSpeedValue> ConvertNumbers(const JsonValue& json) {
    if (!json.is_array()) return Refuse(json);
    for (const JsonValue& item : json.items) {
      double number = item.number;
      if (item.is_string() && absl::SimpleAtod(item.text, &number)) {
        report_.Warn(path_, item.line,
                     absl::StrCat("holds the text ", item.Describe()));
      } else if (!item.is_number()) {
        return Refuse(item);
      }
      value_.numbers.push_back(number);
    }
    return value_;
  }

  KeyType type_;
  absl::string_view path_;
  ConfigReport& report_;
  DeepSpeedValue value_;
};

}  // namespace

std::optional<DeepSpeedValue> ConvertDeepSpeedValue(const JsonValue& json, KeyType type,
                                                    absl::string_view written_path,
                                                    ConfigReport& report) {
  return Converter(type, written_path, report).Convert(json);
}

}  // namespace strata
