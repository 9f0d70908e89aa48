/// Which machine a plan is made for: one that was named, the one that tierbench
/// measured here, or a typical one.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/device/device.h"
#include "runtime/plan/machine_profile.h"
#include "tools/machine/system_view.h"

namespace strata {

struct FoundProfile {
  MachineProfile profile;
  std::string source;        // "built in", the file's path, "a typical card of ..."
  int64_t device_bytes = 0;  // memory of the card, where the machine is well known
};

/// The profile that `hardware` names, a well-known machine or a file. InvalidArgument
/// or NotFound, with what there is, if it is neither.
absl::StatusOr<FoundProfile> ReadHardware(const std::string& hardware);

/// The stored profile: the file that STRATA_PROFILE names, else
/// ~/.config/strata/profile.json. Nothing if there is none; an error if it is broken.
absl::StatusOr<std::optional<FoundProfile>> ReadStoredProfile();

/// Where the stored profile is read from and written to; "" if there is no home.
std::string StoredProfilePath();

/// "AMD EPYC 9R14, 2 cores": what a profile is bound to, beside its device.
std::string MachineName(const SystemView& system);

/// For a run here that computes on `device`: the stored profile if it was measured on
/// this machine and this device, else a preset; `source` says which, and why.
absl::StatusOr<FoundProfile> ProfileForRun(const SystemView& system,
                                           const Device& device);

/// The stored profile, else a well-known card that has about `device_bytes` of memory.
absl::StatusOr<FoundProfile> StoredOrTypicalProfile(int64_t device_bytes);

}  // namespace strata
