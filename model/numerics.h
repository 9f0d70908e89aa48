/// The numerics profile of a run: everything that can change a bit of its results, as
/// data. It is settled before planning, printed, stored in checkpoints, and what a
/// resumed run is held to. docs/numerics.md says why each entry is there.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "kernels/ops.h"
#include "model/model_trace.h"

namespace strata {

struct NumericsProfile {
  std::vector<NumericsEntry> entries;

  /// The value of that name, or null.
  const std::string* Find(absl::string_view name) const;
  /// 16 hexadecimal digits over the entries that decide bits, in any order.
  std::string Hash() const;
};

/// The profile of `model` on `kernels`.
NumericsProfile NumericsOf(const ModelShape& model, const Kernels& kernels);

/// One line for each entry: "  cpu.threads 8 (does not decide bits here)".
std::string FormatNumerics(const NumericsProfile& profile);

/// {"hash": .., "decides": {name: value}, "informs": {name: value}}.
nlohmann::ordered_json ToJson(const NumericsProfile& profile);
/// InvalidArgument, with `name`, for anything else, and for a hash that is not that of
/// the entries.
absl::StatusOr<NumericsProfile> NumericsFromJson(const nlohmann::ordered_json& json,
                                                 absl::string_view name);
absl::StatusOr<NumericsProfile> ParseNumerics(absl::string_view text,
                                              absl::string_view name);

/// "cpu.threads is 8 there and 4 here", one for each entry that decides bits in one of
/// the two profiles and differs.
std::vector<std::string> NumericsDifferences(const NumericsProfile& there,
                                             const NumericsProfile& here);

/// FailedPrecondition with all differences; `there` comes from what `name` names.
absl::Status CheckNumerics(const NumericsProfile& there, const NumericsProfile& here,
                           absl::string_view name);

}  // namespace strata
