/// Values of flags: read from what the user typed, and shown as defaults in --help.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::cli {

/// A size in bytes; typed with a unit ("24GiB").
struct Size {
  int64_t bytes = 0;
};

/// Sets `value` to what `text` says. InvalidArgument, naming the text and what was
/// expected, if it is no such thing. A vector gets one more element.
absl::Status ReadValue(absl::string_view text, bool& value);
absl::Status ReadValue(absl::string_view text, int64_t& value);
absl::Status ReadValue(absl::string_view text, double& value);  // finite
absl::Status ReadValue(absl::string_view text, Size& value);
absl::Status ReadValue(absl::string_view text, std::string& value);
absl::Status ReadValue(absl::string_view text, std::vector<std::string>& value);

/// "" if there is nothing to show: an empty text, no element.
std::string ShowValue(bool value);
std::string ShowValue(int64_t value);
std::string ShowValue(double value);
std::string ShowValue(Size value);
std::string ShowValue(const std::string& value);
std::string ShowValue(const std::vector<std::string>& value);

/// An optional is absent until its flag is typed.
template <typename T>
absl::Status ReadValue(absl::string_view text, std::optional<T>& value) {
  T read{};
  if (absl::Status status = ReadValue(text, read); !status.ok()) return status;
  value = std::move(read);
  return absl::OkStatus();
}
template <typename T>
std::string ShowValue(const std::optional<T>& value) {
  return value.has_value() ? ShowValue(*value) : "";
}

}  // namespace strata::cli
