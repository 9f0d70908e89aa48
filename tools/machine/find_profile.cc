#include "tools/machine/find_profile.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>
#include <stdlib.h>
#include <unistd.h>

#include <vector>

#include "model/text_file.h"
#include "runtime/base/nearest_name.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "runtime/plan/machine_profile_json.h"

namespace strata {
namespace {

absl::StatusOr<FoundProfile> ReadFile(const std::string& path) {
  STRATA_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  FoundProfile found{.source = path};
  STRATA_ASSIGN_OR_RETURN(found.profile, ParseMachineProfile(text, path));
  return found;
}

std::string Environment(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

/// A card that is known by its name, else the default, which is a fast one's.
FoundProfile PresetFor(const Device& device) {
  const std::string name = absl::AsciiStrToLower(device.name());
  MachineProfile profile = FindKnownMachine("cpu")->profile;
  if (device.kind() == DeviceKind::kCuda) {
    profile = MachineProfile();
    for (const KnownMachine& known : KnownMachines()) {
      absl::string_view model = known.profile.name;  // "rtx4090" is "... RTX 4090"
      absl::ConsumePrefix(&model, "rtx");
      if (known.device_bytes > 0 && absl::StrContains(name, model)) {
        profile = known.profile;
      }
    }
    profile.device_overhead_bytes = 0;  // the run knows better
  }
  return {.profile = std::move(profile)};
}

}  // namespace

std::string StoredProfilePath() {
  const std::string path = Environment("STRATA_PROFILE");
  if (!path.empty()) return path;
  const std::string home = Environment("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.config/strata/profile.json");
}

std::string MachineName(const SystemView& system) {
  return absl::StrCat(
      system.Field("/proc/cpuinfo", "model name").value_or(system.architecture), ", ",
      system.core_count, " cores");
}

absl::StatusOr<FoundProfile> ProfileForRun(const SystemView& system,
                                           const Device& device) {
  STRATA_ASSIGN_OR_RETURN(std::optional<FoundProfile> stored, ReadStoredProfile());
  const std::string here = MachineName(system);
  std::string why = "none is stored: tierbench --save_profile measures one";
  if (stored) {
    const MachineProfile& profile = stored->profile;
    if (profile.machine == here && profile.device == device.name()) {
      stored->source = absl::StrCat("measured, ", stored->source);
      return *std::move(stored);
    }
    const auto shown = [](const std::string& text) {
      return text.empty() ? std::string("an unnamed one") : text;
    };
    why = absl::StrCat("that in ", stored->source, " was measured on ",
                       shown(profile.machine), " with ", shown(profile.device),
                       ", this is ", here, " with ", std::string(device.name()),
                       ": tierbench --save_profile measures it");
  }
  FoundProfile preset = PresetFor(device);
  preset.source = absl::StrCat("a preset, not measured here; ", why);
  return preset;
}

absl::StatusOr<FoundProfile> ReadHardware(const std::string& hardware) {
  if (const KnownMachine* const known = FindKnownMachine(hardware)) {
    return FoundProfile{known->profile, "built in", known->device_bytes};
  }
  if (absl::EndsWith(hardware, ".json") || access(hardware.c_str(), F_OK) == 0) {
    return ReadFile(hardware);
  }
  std::vector<std::string> names;
  for (const KnownMachine& machine : KnownMachines()) {
    names.push_back(machine.profile.name);
  }
  const std::optional<std::string> nearest = NearestName(hardware, names);
  return WithMend(
      absl::InvalidArgumentError(absl::StrCat(
          "--hardware '", hardware, "' is no machine that is known, and no file")),
      absl::StrCat(nearest ? absl::StrCat("did you mean ", *nearest, "? ") : "",
                   "take one of ", absl::StrJoin(names, ", "),
                   ", or the path of a profile that tierbench saved"));
}

absl::StatusOr<std::optional<FoundProfile>> ReadStoredProfile() {
  const std::string path = StoredProfilePath();
  if (path.empty()) return std::nullopt;
  const bool is_named = !Environment("STRATA_PROFILE").empty();
  if (!is_named && access(path.c_str(), F_OK) != 0) return std::nullopt;
  absl::StatusOr<FoundProfile> found = ReadFile(path);
  if (!found.ok()) {
    return WithMend(Annotate(found.status(), "the stored machine profile"),
                    "remove it, or measure it again: tierbench --save_profile");
  }
  return std::optional(*std::move(found));
}

absl::StatusOr<FoundProfile> StoredOrTypicalProfile(int64_t device_bytes) {
  STRATA_ASSIGN_OR_RETURN(std::optional<FoundProfile> stored, ReadStoredProfile());
  if (stored) {
    const std::string here = MachineName(SystemView::OfThisMachine());
    const std::string& machine = stored->profile.machine;
    if (!machine.empty() && machine != here) {
      absl::StrAppend(&stored->source, ", measured on ", machine, "; this machine is ",
                      here);
    }
    return *std::move(stored);
  }
  const KnownMachine* const typical =
      FindKnownMachine(device_bytes <= 32 * kGiB ? "rtx4090" : "h200");
  STRATA_CHECK(typical != nullptr);
  return FoundProfile{
      typical->profile,
      absl::StrCat("assumed: no profile of this machine is stored, so a card of ",
                   FormatSize(device_bytes), " is taken to be as fast as this one"),
      typical->device_bytes};
}

}  // namespace strata
