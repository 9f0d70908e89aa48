/// One value of a DeepSpeed JSON, brought to the type that its key has.
#pragma once

#include <optional>

#include "model/config_note.h"
#include "model/deepspeed_config.h"
#include "model/deepspeed_schema.h"
#include "model/json_reader.h"

namespace strata {

/// Warns of what is read although it is not written as it should be; refuses, and
/// returns nothing, what cannot be read. `written_path` is for messages.
std::optional<DeepSpeedValue> ConvertDeepSpeedValue(const JsonValue& json, KeyType type,
                                                    absl::string_view written_path,
                                                    ConfigReport& report);

}  // namespace strata
