/// What somebody who misspelt a name probably meant: flags, keys, built-in shapes.
#pragma once

#include <absl/strings/string_view.h>

#include <optional>
#include <span>
#include <string>

namespace strata {

/// The one of `names` that takes the fewest edits (insert, delete, replace a character)
/// to become `name`; the first of several. Where even that one is far, more than a third
/// of the characters and more than two of them: the first that contains all of `name`,
/// if that has at least five characters ("batch_size"). Else nothing.
std::optional<std::string> NearestName(absl::string_view name,
                                       std::span<const std::string> names);

}  // namespace strata
