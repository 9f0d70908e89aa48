/// The directory that the user gave as nvme_path: made with its parents if missing, and
/// removed again by the last run in it. A marker file in each directory that we made
/// tells any run, also a later one, that it may be removed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <functional>
#include <string>

#include "tiers/file_descriptor.h"

namespace strata {

inline constexpr const char* kCreatedMarkerName = ".strata-created";

/// Makes `path`, which is absolute, if it is missing, and opens it with an exclusive
/// lock that lasts as long as the descriptor. NotFound if it was removed meanwhile.
absl::StatusOr<FileDescriptor> OpenUserDirectory(const std::string& path);

/// Removes what OpenUserDirectory made of `path`, as far as it is empty. Leaves it to
/// the others while one of the entries `is_ours`.
void RemoveUserDirectory(const std::string& path,
                         const std::function<bool(absl::string_view)>& is_ours);

/// Calls `visit` with the name of each entry, "." and ".." excepted.
void ForEachEntry(int directory, const std::function<void(absl::string_view)>& visit);

}  // namespace strata
