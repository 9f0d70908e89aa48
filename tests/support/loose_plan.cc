#include "tests/support/loose_plan.h"

#include <algorithm>
#include <utility>

namespace strata {

void LoosePlan::Erase(uint32_t op) {
  ops.erase(ops.begin() + op);
  for (LooseOp& other : ops) {
    std::erase(other.waits, op);
    for (uint32_t& wait : other.waits) wait -= wait > op ? 1 : 0;
  }
  if (result_op >= op && result_op > 0) --result_op;
}

void LoosePlan::Duplicate(uint32_t op) {
  for (LooseOp& other : ops) {
    for (uint32_t& wait : other.waits) wait += wait >= op ? 1 : 0;
  }
  LooseOp copy = ops[op];
  copy.waits.push_back(op);
  ops.insert(ops.begin() + op + 1, std::move(copy));
  if (result_op >= op) ++result_op;
}

void LoosePlan::SwapWithNext(uint32_t op) {
  std::erase(ops[op + 1].waits, op);
  std::swap(ops[op], ops[op + 1]);
  for (size_t i = op + 2; i < ops.size(); ++i) {
    for (uint32_t& wait : ops[i].waits) {
      if (wait == op || wait == op + 1) wait = 2 * op + 1 - wait;
    }
  }
  if (result_op == op || result_op == op + 1) result_op = 2 * op + 1 - result_op;
}

LoosePlan Loosen(const Plan& plan) {
  LoosePlan loose{.key = plan.key, .ops = {}, .result_op = plan.result_op};
  for (const Op& op : plan.ops) {
    const auto accesses = plan.Accesses(op);
    const auto waits = plan.Waits(op);
    loose.ops.push_back(
        {op, {accesses.begin(), accesses.end()}, {waits.begin(), waits.end()}});
  }
  return loose;
}

Plan Tighten(const LoosePlan& loose) {
  Plan plan;
  plan.key = loose.key;
  plan.result_op = loose.result_op;
  for (const LooseOp& part : loose.ops) {
    Op op = part.op;
    op.first_access = static_cast<uint32_t>(plan.accesses.size());
    op.access_count = static_cast<uint32_t>(part.accesses.size());
    op.first_wait = static_cast<uint32_t>(plan.waits.size());
    op.wait_count = static_cast<uint32_t>(part.waits.size());
    plan.accesses.insert(plan.accesses.end(), part.accesses.begin(),
                         part.accesses.end());
    plan.waits.insert(plan.waits.end(), part.waits.begin(), part.waits.end());
    plan.ops.push_back(op);
  }
  return plan;
}

}  // namespace strata
