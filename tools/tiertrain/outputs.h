/// What a run writes for the user, tried before it starts: hours of training are not
/// lost to a directory that cannot be made, nor data to a log of the same name.
#pragma once

#include <absl/status/status.h>

#include "tools/tiertrain/command_line.h"

namespace strata {

/// InvalidArgument, or the system's error, naming flag and path, for what cannot be
/// written, would replace a file that the run reads or writes otherwise, or would hide
/// the trained model. Whatever it makes to find out is gone when it returns.
absl::Status CheckOutputs(const TrainCommand& command);

}  // namespace strata
