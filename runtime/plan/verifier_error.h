/// How the verifier says which operation of which plan is wrong.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <string>

#include "runtime/plan/plan.h"

namespace strata::verifier {

/// "operation 17 block.3/state[2] (copy in host-to-device)".
std::string OpName(const StepTrace& trace, const Plan& plan, uint32_t op);

/// "device 4096+8192".
std::string RangeName(TierKind tier, int64_t offset, int64_t size_bytes);

template <typename... What>
absl::Status PlanError(const Plan& plan, const What&... what) {
  return absl::InternalError(absl::StrCat("plan ", ToString(plan.key), ": ", what...));
}

template <typename... What>
absl::Status OpError(const StepTrace& trace, const Plan& plan, uint32_t op,
                     const What&... what) {
  return PlanError(plan, OpName(trace, plan, op), ": ", what...);
}

}  // namespace strata::verifier
