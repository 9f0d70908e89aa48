/// Small text files in one go.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <string>

namespace strata {

/// The file's bytes. NotFound if it does not exist; the message names path and reason.
absl::StatusOr<std::string> ReadTextFile(absl::string_view path);

/// Replaces the file by `text`: written beside, made durable and renamed, so that a
/// reader sees the old text or the new one.
absl::Status WriteTextFile(absl::string_view path, absl::string_view text);

}  // namespace strata
