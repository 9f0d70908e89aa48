#include "runtime/plan/verifier.h"

#include <absl/strings/str_cat.h>

#include <memory>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"
#include "runtime/plan/verifier_homes.h"
#include "runtime/plan/verifier_layout.h"
#include "runtime/plan/verifier_operands.h"
#include "runtime/plan/verifier_races.h"
#include "runtime/plan/verifier_values.h"

namespace strata {
namespace {

absl::Status VerifyPlan(const PlanSet& set, const Plan& plan) {
  STRATA_RETURN_IF_ERROR(verifier::CheckStructure(set, plan));
  for (uint32_t op = 0; op < plan.ops.size(); ++op) {
    STRATA_RETURN_IF_ERROR(verifier::CheckOperands(set, plan, op));
  }
  STRATA_RETURN_IF_ERROR(verifier::CheckWork(set, plan));
  return verifier::CheckValues(set, plan);
}

}  // namespace

absl::Status VerifyPlanSet(const PlanSet& set, const Budgets& budgets) {
  if (absl::Status trace = ValidateTrace(set.trace); !trace.ok()) {
    return absl::InternalError(trace.message());
  }
  STRATA_RETURN_IF_ERROR(verifier::CheckLayout(set, budgets));
  if (set.plans.empty()) return absl::InternalError("plan set: it has no plans");
  std::vector<std::unique_ptr<verifier::RaceCheck>> races;
  for (size_t i = 0; i < set.plans.size(); ++i) {
    const Plan& plan = set.plans[i];
    if (set.Find(plan.key) != static_cast<int32_t>(i)) {
      return verifier::PlanError(plan, "the set has two plans of this key");
    }
    STRATA_RETURN_IF_ERROR(VerifyPlan(set, plan));
    races.push_back(std::make_unique<verifier::RaceCheck>(set, plan));
    STRATA_RETURN_IF_ERROR(races.back()->Check());
    STRATA_RETURN_IF_ERROR(races.back()->CheckResults());
  }
  STRATA_RETURN_IF_ERROR(verifier::CheckLinks(set));
  for (const Link& link : set.links) {
    const verifier::RaceCheck& first = *races[static_cast<size_t>(link.first)];
    const verifier::RaceCheck& second = *races[static_cast<size_t>(link.second)];
    STRATA_RETURN_IF_ERROR(
        verifier::CheckHandOver(set, set.plans[static_cast<size_t>(link.first)],
                                set.plans[static_cast<size_t>(link.second)]));
    STRATA_RETURN_IF_ERROR(second.CheckLink(first, link));
  }
  return absl::OkStatus();
}

}  // namespace strata
