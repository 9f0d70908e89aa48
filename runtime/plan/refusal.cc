#include "runtime/plan/refusal.h"

#include <absl/strings/str_cat.h>

#include <string>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

std::string SizeAndBytes(int64_t bytes) {
  return absl::StrCat(FormatSize(bytes), " (", bytes, ")");
}

}  // namespace

void Follow(const Advice& advice, Budgets& budgets) {
  int64_t& budget = advice.tier == TierKind::kDevice ? budgets.device_bytes
                    : advice.tier == TierKind::kHost ? budgets.host_bytes
                                                     : budgets.nvme_bytes;
  budget = advice.bytes;
}

absl::Status RefuseBudgets(const PlanRequest& request, int64_t least_device_bytes,
                           const std::optional<Advice>& advice) {
  const int64_t overhead = request.profile.device_overhead_bytes;
  const int64_t least = least_device_bytes + overhead;
  const std::string message = absl::StrCat(
      "no plan fits: it takes at least ", FormatSize(least), " (", least,
      " bytes) of device memory; given are ",
      SizeAndBytes(request.budgets.device_bytes + overhead), " of device, ",
      SizeAndBytes(request.budgets.host_bytes), " of host memory and ",
      SizeAndBytes(request.budgets.nvme_bytes), " of nvme");
  if (!advice) {
    return WithMend(absl::ResourceExhaustedError(message),
                    absl::StrCat("raise device memory to ", least,
                                 " bytes first, and host memory or nvme so that they "
                                 "hold the weights and the optimizer: no single budget "
                                 "mends it"));
  }
  const int64_t bytes =
      advice->bytes + (advice->tier == TierKind::kDevice ? overhead : 0);
  return WithMend(
      absl::ResourceExhaustedError(message),
      absl::StrCat("raise ", Name(advice->tier), " memory to ", bytes, " bytes (",
                   FormatSize(bytes), "), the cheapest change that fits"));
}

}  // namespace strata
