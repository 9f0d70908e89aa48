#include "tools/cli/flag_value.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <cmath>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata::cli {
namespace {

absl::Status NotA(absl::string_view text, absl::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", expected));
}

}  // namespace

absl::Status ReadValue(absl::string_view text, bool& value) {
  for (const absl::string_view yes : {"true", "yes", "1"}) {
    if (absl::EqualsIgnoreCase(text, yes)) return value = true, absl::OkStatus();
  }
  for (const absl::string_view no : {"false", "no", "0"}) {
    if (absl::EqualsIgnoreCase(text, no)) return value = false, absl::OkStatus();
  }
  return NotA(text, "true or false");
}

absl::Status ReadValue(absl::string_view text, int64_t& value) {
  int64_t read = 0;
  if (!absl::SimpleAtoi(text, &read)) return NotA(text, "a whole number");
  value = read;
  return absl::OkStatus();
}

absl::Status ReadValue(absl::string_view text, double& value) {
  double read = 0;
  if (!absl::SimpleAtod(text, &read) || !std::isfinite(read)) {
    return NotA(text, "a number");
  }
  value = read;
  return absl::OkStatus();
}

absl::Status ReadValue(absl::string_view text, Size& value) {
  STRATA_ASSIGN_OR_RETURN(value.bytes, ParseSize(text));
  return absl::OkStatus();
}

absl::Status ReadValue(absl::string_view text, std::string& value) {
  value = std::string(text);
  return absl::OkStatus();
}

absl::Status ReadValue(absl::string_view text, std::vector<std::string>& value) {
  value.emplace_back(text);
  return absl::OkStatus();
}

std::string ShowValue(bool value) { return value ? "true" : "false"; }
std::string ShowValue(int64_t value) { return absl::StrCat(value); }
std::string ShowValue(double value) { return absl::StrFormat("%g", value); }
std::string ShowValue(Size value) { return FormatSize(value.bytes); }
std::string ShowValue(const std::string& value) { return value; }
std::string ShowValue(const std::vector<std::string>& value) {
  return absl::StrJoin(value, " ");
}

}  // namespace strata::cli
