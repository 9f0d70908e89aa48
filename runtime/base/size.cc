#include "runtime/base/size.h"

#include <absl/strings/ascii.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cmath>

#include "runtime/base/types.h"

namespace strata {
namespace {

// Multiplier of a unit's name, 0 if there is none of that name.
double UnitBytes(absl::string_view unit) {
  if (unit.empty() || unit == "b") return 1;
  const absl::string_view letters = "kmgt";
  const size_t power = letters.find(unit[0]);
  if (power == absl::string_view::npos) return 0;
  unit.remove_prefix(1);
  if (unit.empty() || unit == "b") return std::pow(1000.0, power + 1.0);
  if (unit == "ib") return std::pow(1024.0, power + 1.0);
  return 0;
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  const size_t unit_start = lower.find_first_not_of("0123456789.");
  const std::string number = lower.substr(0, unit_start);
  const std::string unit =
      unit_start == std::string::npos
          ? ""
          : std::string(absl::StripLeadingAsciiWhitespace(lower.substr(unit_start)));
  double value = 0;
  const double multiplier = UnitBytes(unit);
  if (number.empty() || multiplier == 0 || !absl::SimpleAtod(number, &value) ||
      value * multiplier >= 9.2e18) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' is not a size: expected a number with an optional unit (K, M, G, T or KB, "
                   "MB, GB, TB = powers of 1000; KiB, MiB, GiB, TiB = powers of 1024)"));
  }
  return static_cast<int64_t>(std::llround(value * multiplier));
}

std::string FormatSize(int64_t size_bytes) {
  const double size = static_cast<double>(size_bytes);
  if (std::abs(size) < 10.0 * kKiB) return absl::StrCat(size_bytes, " B");
  if (std::abs(size) < 1.0 * kMiB) return absl::StrFormat("%.2f KiB", size / kKiB);
  if (std::abs(size) < 1.0 * kGiB) return absl::StrFormat("%.2f MiB", size / kMiB);
  if (std::abs(size) < 1024.0 * kGiB) return absl::StrFormat("%.2f GiB", size / kGiB);
  return absl::StrFormat("%.2f TiB", size / (1024.0 * kGiB));
}

}  // namespace strata
