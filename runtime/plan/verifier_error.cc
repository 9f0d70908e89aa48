#include "runtime/plan/verifier_error.h"

namespace strata::verifier {

std::string OpName(const StepTrace& trace, const Plan& plan, uint32_t op) {
  const Op& o = plan.ops[op];
  return absl::StrCat("operation ", op, " ", Describe(trace, plan, o), " (",
                      Name(o.code), " in ", Name(o.lane), ")");
}

std::string RangeName(TierKind tier, int64_t offset, int64_t size_bytes) {
  return absl::StrCat(Name(tier), " ", offset, "+", size_bytes);
}

}  // namespace strata::verifier
