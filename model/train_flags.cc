#include "model/train_flags.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr std::array<const char*, kPlacedKindCount> kKindNames = {
    "weights", "optimizer", "gradients", "activations"};

std::optional<TierKind> ParseTier(absl::string_view text) {
  for (TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    if (text == Name(tier)) return tier;
  }
  return std::nullopt;
}

std::optional<size_t> ParseKind(absl::string_view text) {
  for (size_t i = 0; i < kKindNames.size(); ++i) {
    if (text == kKindNames[i]) return i;
  }
  return std::nullopt;
}

}  // namespace

const char* Name(PlacedKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

absl::StatusOr<PlacementFlags> ParsePlacement(absl::string_view text) {
  PlacementFlags placement;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(piece, absl::MaxSplits('=', 1));
    const std::optional<size_t> kind =
        ParseKind(absl::StripAsciiWhitespace(parts.first));
    const std::optional<TierKind> tier =
        ParseTier(absl::StripAsciiWhitespace(parts.second));
    if (!kind || !tier) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--placement: '", piece,
          "' is no KIND=TIER; kinds are weights, optimizer, gradients and activations, "
          "tiers are device, host and nvme"));
    }
    if (placement[*kind] && placement[*kind] != tier) {
      return absl::InvalidArgumentError(
          absl::StrCat("--placement: ", kKindNames[*kind], " is given as ",
                       Name(*placement[*kind]), " and as ", Name(*tier)));
    }
    placement[*kind] = tier;
  }
  return placement;
}

absl::StatusOr<NvmePath> ParseNvmePath(absl::string_view text) {
  NvmePath path;
  const size_t colon = text.rfind(':');
  const absl::string_view tail =
      colon == absl::string_view::npos ? "" : text.substr(colon + 1);
  const absl::StatusOr<int64_t> size = ParseSize(tail);
  // A directory's name may hold a colon itself.
  if (size.ok()) path.size_bytes = *size;
  path.directory = std::string(size.ok() ? text.substr(0, colon) : text);
  if (path.directory.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--nvme_path: '", text, "' names no directory"));
  }
  return path;
}

}  // namespace strata
