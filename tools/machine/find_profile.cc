#include "tools/machine/find_profile.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
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

}  // namespace

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
  std::string path = Environment("STRATA_PROFILE");
  if (path.empty()) {
    const std::string home = Environment("HOME");
    if (home.empty()) return std::nullopt;
    path = absl::StrCat(home, "/.config/strata/profile.json");
    if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  }
  absl::StatusOr<FoundProfile> found = ReadFile(path);
  if (!found.ok()) return Annotate(found.status(), "the stored machine profile");
  return std::optional(*std::move(found));
}

absl::StatusOr<FoundProfile> StoredOrTypicalProfile(int64_t device_bytes) {
  STRATA_ASSIGN_OR_RETURN(std::optional<FoundProfile> stored, ReadStoredProfile());
  if (stored) return *std::move(stored);
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
