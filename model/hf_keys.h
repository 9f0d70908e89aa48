/// Reads single keys of a config.json. A reader leaves its variable as it is, with its
/// default, where the key is absent or null; what it refuses it names.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>

#include "model/json_reader.h"

namespace strata {

/// Null for a key that is absent or null.
const JsonValue* Present(const JsonValue& object, absl::string_view key);

/// InvalidArgument: "`key` is `value` (line 7): `why`".
absl::Status KeyError(absl::string_view key, const JsonValue& value,
                      absl::string_view why);

/// A whole number from 1 to 16 million.
absl::Status ReadCount(const JsonValue& object, absl::string_view key, int64_t& out);
absl::Status ReadRequiredCount(const JsonValue& object, absl::string_view key,
                               int64_t& out);
/// Any number above 0.
absl::Status ReadPositive(const JsonValue& object, absl::string_view key, double& out);
absl::Status ReadBool(const JsonValue& object, absl::string_view key, bool& out);

}  // namespace strata
