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

std::string Given(const PlanRequest& request) {
  return absl::StrCat("given are ",
                      SizeAndBytes(request.budgets.device_bytes +
                                   request.profile.device_overhead_bytes),
                      " of device, ", SizeAndBytes(request.budgets.host_bytes),
                      " of host memory and ", SizeAndBytes(request.budgets.nvme_bytes),
                      " of nvme");
}

std::string Raise(const PlanRequest& request, const Mend& mend) {
  const int64_t bytes =
      mend.bytes +
      (mend.tier == TierKind::kDevice ? request.profile.device_overhead_bytes : 0);
  return absl::StrCat("raise ", Name(mend.tier), " memory to ", bytes, " bytes (",
                      FormatSize(bytes), ")");
}

}  // namespace

absl::Status RefuseBudgets(const PlanRequest& request, const Mends& mends) {
  const int64_t least =
      mends.least_device_bytes + request.profile.device_overhead_bytes;
  const std::string message =
      absl::StrCat("no plan fits: it takes at least ", FormatSize(least), " (", least,
                   " bytes) of device memory; ", Given(request));
  if (mends.mends.empty()) {
    return WithMend(absl::ResourceExhaustedError(message),
                    absl::StrCat("raise device memory to ", least,
                                 " bytes first, and host memory or nvme so that they "
                                 "hold the weights and the optimizer: no single budget "
                                 "mends it"));
  }
  std::string mend = absl::StrCat(Raise(request, mends.mends.front()),
                                  ", the cheapest change that fits");
  for (size_t i = 1; i < mends.mends.size(); ++i) {
    absl::StrAppend(&mend, "; or ", Raise(request, mends.mends[i]));
  }
  return WithMend(absl::ResourceExhaustedError(message), mend);
}

absl::Status RefuseDecisions(const PlanRequest& request, const TierBytes& need) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the given decisions do not fit: they take ",
                   SizeAndBytes(need.device + request.profile.device_overhead_bytes),
                   " of device, ", SizeAndBytes(need.host), " of host memory and ",
                   SizeAndBytes(need.nvme), " of nvme; ", Given(request)));
}

}  // namespace strata
