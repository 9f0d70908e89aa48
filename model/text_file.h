/// Small text files in one go.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace strata {

/// The file's bytes. NotFound if it does not exist; the message names path and reason.
absl::StatusOr<std::string> ReadTextFile(absl::string_view path);

}  // namespace strata
