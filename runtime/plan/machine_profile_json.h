/// Machine profiles as files, and those of well-known machines, for planning for
/// hardware that is somewhere else.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/machine_profile.h"

namespace strata {

/// One JSON object; its keys carry their units.
std::string MachineProfileJson(const MachineProfile& profile);

/// InvalidArgument, with `name` (of the file) and the key, for a text that is no JSON
/// object, a key that is missing, unknown or of another type, and a rate that is not
/// positive.
absl::StatusOr<MachineProfile> ParseMachineProfile(absl::string_view text,
                                                   absl::string_view name);

struct KnownMachine {
  MachineProfile profile;    // profile.name is what people type
  int64_t device_bytes = 0;  // memory of the card; 0: the device is the CPU
};

/// "h200", "rtx4090", "rtx3090", "cpu". Rates are what such machines sustain, from
/// measurements where there were some (h200) and from data sheets less what is usually
/// lost; a measured profile is better.
const std::vector<KnownMachine>& KnownMachines();
const KnownMachine* FindKnownMachine(absl::string_view name);  // null if there is none

}  // namespace strata
