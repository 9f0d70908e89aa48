#include "runtime/plan/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/loose_plan.h"
#include "tests/support/tiny_plans.h"

namespace strata {
namespace {

/// One thing that can be wrong with a plan set, and part of what the verifier says of
/// it.
struct Fault {
  const char* message;
  std::function<void(PlanSet&)> spoil;
};

void ExpectAllFound(const std::vector<Fault>& faults) {
  for (const Fault& fault : faults) {
    PlanSet set = TinyPlanSet();
    const Budgets budgets = BudgetsOf(set);
    fault.spoil(set);
    const absl::Status status = VerifyPlanSet(set, budgets);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << fault.message;
    EXPECT_NE(status.message().find(fault.message), absl::string_view::npos)
        << "expected '" << fault.message << "', got: " << status;
  }
}

// A fault in one operation of the steady plan.
Fault InOp(const char* message, OpCode code, int32_t layer,
           std::function<void(LooseOp&)> spoil, Role role = Role::kScratch) {
  return {message, [=](PlanSet& set) {
            Plan& plan = set.plans[kTinySteady];
            LoosePlan loose = Loosen(plan);
            spoil(loose.ops[FindOp(plan, code, layer, role)]);
            plan = Tighten(loose);
          }};
}

// A fault in the steady plan's list; `spoil` receives the position of an operation.
Fault InList(const char* message, OpCode code, int32_t layer,
             std::function<void(LoosePlan&, uint32_t)> spoil,
             Role role = Role::kScratch) {
  return {message, [=](PlanSet& set) {
            Plan& plan = set.plans[kTinySteady];
            LoosePlan loose = Loosen(plan);
            spoil(loose, FindOp(plan, code, layer, role));
            plan = Tighten(loose);
            for (Link& link : set.links) {  // the last operation may have moved
              if (link.first == kTinySteady) {
                link.waits[0].after = static_cast<uint32_t>(plan.ops.size()) - 1;
              }
            }
          }};
}

// Removes the operation and lets what follows wait for the one before it.
void Bridge(LoosePlan& plan, uint32_t op) {
  if (op > 0 && op + 1 < plan.ops.size()) plan.ops[op + 1].waits.push_back(op - 1);
  plan.Erase(op);
}

Access& AccessOf(LooseOp& op, Operand operand, AccessMode mode) {
  return *std::find_if(op.accesses.begin(), op.accesses.end(), [&](const Access& a) {
    return a.operand == operand && a.mode == mode;
  });
}

constexpr AccessMode kRead = AccessMode::kRead, kWrite = AccessMode::kWrite;

TEST(Verifier, AcceptsThePlansWrittenByHand) {
  const PlanSet set = TinyPlanSet();
  const absl::Status status = VerifyPlanSet(set, BudgetsOf(set));
  EXPECT_TRUE(status.ok()) << status;
}

TEST(Verifier, NamesFaultsOfTheLayout) {
  ExpectAllFound({
      {"nvme arena of 16385 bytes exceeds its budget",
       [](PlanSet& s) { ++s.arena_bytes.nvme; }},
      {"constants has 4095 bytes instead of 4096",
       [](PlanSet& s) { --s.layout.constants.size_bytes; }},
      {"losses_host rests in tier device",
       [](PlanSet& s) { s.layout.losses_host.tier = TierKind::kDevice; }},
      {"the homes of body/weight and body/state[0] overlap",
       [](PlanSet& s) {
         s.layout.layers[0].slices[0].state = s.layout.layers[0].weights;
         s.layout.layers[0].slices[0].state.size_bytes *= 2;
       }},
      {"leaves the arena",
       [](PlanSet& s) { s.layout.layers[0].slices[0].state.offset = 4096; }},
      {"slices cover 0 of 2048 trainable elements",
       [](PlanSet& s) { s.layout.layers[1].slices.clear(); }},
      {"must begin at 0", [](PlanSet& s) { s.layout.layers[1].slices[0].begin = 1; }},
      {"updated immediately, but updates wait for the norm",
       [](PlanSet& s) { s.layout.layers[0].slices[0].mode = UpdateMode::kImmediate; }},
      {"speculated has 0 bytes instead of 8192",
       [](PlanSet& s) { s.layout.layers[0].slices[0].mode = UpdateMode::kLagged; }},
      {"it places 1 layers", [](PlanSet& s) { s.layout.layers.pop_back(); }},
  });
}

TEST(Verifier, NamesFaultsOfStructure) {
  ExpectAllFound({
      {"the set has two plans of this key",
       [](PlanSet& s) { s.plans.push_back(s.plans[kTinyFlush]); }},
      {"an evaluation starts settled",
       [](PlanSet& s) { s.plans[kTinyEvaluate].key.start = Border::kPending; }},
      {"has 1 to 1 micro-batches",
       [](PlanSet& s) { s.plans[kTinyFirst].key.micro_batches = 2; }},
      {"result_op is 99", [](PlanSet& s) { s.plans[kTinyFirst].result_op = 99; }},
      InOp("outside the arena", OpCode::kBackward, 1,
           [](LooseOp& op) { op.accesses[0].offset = int64_t{1} << 40; }),
      InOp("not in whole blocks of 4096", OpCode::kRead, 0,
           [](LooseOp& op) { op.accesses[1].offset -= 512; }),
      InOp("which comes later", OpCode::kForward, 0,
           [](LooseOp& op) { op.waits.push_back(1000); }),
      InOp("there is no layer 7", OpCode::kForward, 0,
           [](LooseOp& op) { op.op.layer = 7; }),
      InOp("only a forward can be a recompute", OpCode::kBackward, 0,
           [](LooseOp& op) { op.op.recompute = true; }),
      InOp("the second access of one operand", OpCode::kForward, 0,
           [](LooseOp& op) { op.accesses.push_back(op.accesses[0]); }),
      InOp("overlapping another operand", OpCode::kForward, 0,
           [](LooseOp& op) {
             AccessOf(op, Operand::kSaved, kWrite).offset =
                 AccessOf(op, Operand::kOutput, kWrite).offset;
           }),
  });
}

TEST(Verifier, NamesFaultsOfOperands) {
  const auto drop = [](Operand operand) {
    return [operand](LooseOp& op) {
      std::erase_if(op.accesses, [&](const Access& a) { return a.operand == operand; });
    };
  };
  ExpectAllFound({
      InOp("it must write workspace", OpCode::kBackward, 1, drop(Operand::kWorkspace)),
      InOp("it must read constants", OpCode::kForward, 0, drop(Operand::kConstants)),
      InOp("has 6 accesses, but needs 5", OpCode::kForward, 0,
           [](LooseOp& op) {
             Access extra = op.accesses[0];
             extra.operand = Operand::kSharedWeights;
             op.accesses.push_back(extra);
           }),
      InOp(
          "weights as weight(0, -1)+0", OpCode::kForward, 0,
          [](LooseOp& op) { AccessOf(op, Operand::kWeights, kRead).value.index = -1; }),
      InOp(
          "gradient as gradient(1, -1)", OpCode::kUpdate, 0,
          [](LooseOp& op) { AccessOf(op, Operand::kGradient, kRead).value.layer = 1; }),
      InOp("of 4096 bytes in device; it must be weight(0, 0)", OpCode::kForward, 0,
           [](LooseOp& op) { AccessOf(op, Operand::kWeights, kRead).size_bytes /= 2; }),
      InOp("must change accumulator in place", OpCode::kBackward, 0,
           [](LooseOp& op) {
             AccessOf(op, Operand::kAccumulator, kWrite).offset += 8192;
           }),
      InOp("its flag is not the layer's own", OpCode::kUpdate, 0,
           [](LooseOp& op) {
             AccessOf(op, Operand::kFlags, kRead).offset += 8;
             AccessOf(op, Operand::kFlags, kWrite).offset += 8;
           }),
      InOp("does not belong into this lane", OpCode::kUpdate, 0,
           [](LooseOp& op) { op.op.lane = Lane::kCpu; }),
      InOp(
          "cannot move from host to device", OpCode::kCopy, 1,
          [](LooseOp& op) { op.op.lane = Lane::kDeviceToHost; }, Role::kWeight),
      InOp(
          "differ in value, part or size", OpCode::kCopy, 1,
          [](LooseOp& op) { op.accesses[1].value_offset = 4096; }, Role::kWeight),
      InOp("one whole zeroed accumulator", OpCode::kZero, 0,
           [](LooseOp& op) { op.accesses[0].size_bytes /= 2; }),
      {"this plan computes nothing like it",
       [](PlanSet& s) {
         s.plans[kTinyFlush].ops = s.plans[kTinyFirst].ops;
         s.plans[kTinyFlush].accesses = s.plans[kTinyFirst].accesses;
         s.plans[kTinyFlush].waits = s.plans[kTinyFirst].waits;
       }},
  });
}

TEST(Verifier, NamesWorkThatIsDoneTooRarelyOrTooOften) {
  ExpectAllFound({
      InList("forward of 'body', micro-batch 0, is computed 0 times", OpCode::kForward,
             0, Bridge),
      InList("backward of 'body', micro-batch 0, is computed 0 times",
             OpCode::kBackward, 0, Bridge),
      InList("slice 0 of 'head' is reduced 2 times", OpCode::kReduce, 1,
             [](LoosePlan& plan, uint32_t op) { plan.Duplicate(op); }),
      InList("slice 0 of 'body' is updated 2 times", OpCode::kUpdate, 0,
             [](LoosePlan& plan, uint32_t op) { plan.Duplicate(op); }),
      InList("slice 0 of 'head' is updated 0 times", OpCode::kUpdate, 1, Bridge),
  });
}

TEST(Verifier, NamesReadsThatDoNotFindTheirValue) {
  ExpectAllFound({
      InList("reads accumulator(0, 0)+0", OpCode::kZero, 0, Bridge),
      InList("but finds nothing defined", OpCode::kCopy, 1, Bridge, Role::kWeight),
      InList("reads state(0, -1)", OpCode::kRead, 0, Bridge),
      // Names the writer of what is found.
      InOp(
          "but finds weight(1, 0)+0 at 28672 of operation 6 head/update[0]",
          OpCode::kCopy, 1,
          [](LooseOp& op) {
            op.accesses[0].value.index = op.accesses[1].value.index = -1;
          },
          Role::kWeight),
      InOp(
          "but finds", OpCode::kCopy, 0,
          [](LooseOp& op) { op.accesses[0].offset += 4096; }, Role::kGradient),
      InOp(
          "reads state(0, -1)+0 at device", OpCode::kCopy, 0,
          [](LooseOp& op) { op.accesses[1].offset -= 4096; }, Role::kState),
      InList("reads weight(1, 0)", OpCode::kUpdate, 1,
             [](LoosePlan& plan, uint32_t op) {  // used before it is updated
               const uint32_t load = op + 3;
               ASSERT_EQ(plan.ops[load].accesses[0].value.role, Role::kWeight);
               std::rotate(plan.ops.begin() + op, plan.ops.begin() + load,
                           plan.ops.begin() + load + 1);
               plan.ops[op].waits.clear();
             }),
  });
}

TEST(Verifier, ReadsBackFromNvmeOnlyWhatWasWrittenTogether) {
  ExpectAllFound({InList("not as it was written", OpCode::kRead, 0,
                         [](LoosePlan& plan, uint32_t op) {
                           for (const size_t access : {0, 1}) {
                             plan.ops[op].accesses[access].size_bytes /= 2;
                           }
                         })});
}

TEST(Verifier, NamesWhatPlansMayNotTouch) {
  const Layout layout = TinyPlanSet().layout;
  const auto copy_inputs_to = [](Lane lane, TierKind tier, int64_t offset) {
    return [=](PlanSet& set) {
      LoosePlan plan = Loosen(set.plans[kTinyEvaluate]);
      plan.ops[0].op.lane = lane;
      plan.ops[0].accesses[1].tier = tier;
      plan.ops[0].accesses[1].offset = offset;
      set.plans[kTinyEvaluate] = Tighten(plan);
    };
  };
  ExpectAllFound({
      {"the home of constants(0, 0), which no plan may change",
       copy_inputs_to(Lane::kHostToDevice, TierKind::kDevice, layout.constants.offset)},
      {"the home of weight(1, 0), which no plan may change",
       copy_inputs_to(Lane::kCpu, TierKind::kHost,
                      layout.layers[1].weights.offset + 8192 + 4096)},
  });
}

TEST(Verifier, NamesHomesThatEndWithoutTheirState) {
  ExpectAllFound({
      InList("ends without state(0, 0)+0 at its home nvme 0+16384", OpCode::kWrite, 0,
             Bridge),
      {"ends without gradient(1, 0)+0",
       [](PlanSet& s) {
         LoosePlan plan = Loosen(s.plans[kTinyFirst]);
         Bridge(plan, FindOp(s.plans[kTinyFirst], OpCode::kCopy, 1, Role::kGradient));
         s.plans[kTinyFirst] = Tighten(plan);
       }},
      InList("ends without tile_sums(0, 0)", OpCode::kCopy, -1, Bridge,
             Role::kTileSums),
      InList("ends without loss(1, 0)", OpCode::kCopy, 1, Bridge, Role::kLoss),
      InList("ends without flags(0, 0)", OpCode::kCopy, -1, Bridge, Role::kFlags),
  });
}

TEST(Verifier, NamesRaces) {
  const auto forget = [](LooseOp& op) { op.waits.clear(); };
  const auto forget_in_list = [](LoosePlan& plan, uint32_t op) {
    plan.ops[op].waits.clear();
  };
  ExpectAllFound({
      // A read that does not wait for its writer.
      InOp("head/backward[0] (backward in compute): reads device", OpCode::kZero, 1,
           forget),
      InList("in a race with operation 1 body/state (copy", OpCode::kUpdate, 0,
             forget_in_list),
      // A write that does not wait for a reader: the staging buffer is reused.
      InOp("body/state (write in nvme-write): reads host", OpCode::kWrite, 0, forget),
      // The same on the device: the gradient of the head is still on its way home.
      InOp("body/reduce[0] (reduce in compute): writes device", OpCode::kZero, 0,
           forget),
  });
}

TEST(Verifier, NvmeOperationsAreOrderedByWaitsOnly) {
  // The write and a second read of the same bytes: two lanes without a common wait.
  PlanSet set = TinyPlanSet();
  LoosePlan plan = Loosen(set.plans[kTinySteady]);
  const uint32_t write = FindOp(set.plans[kTinySteady], OpCode::kWrite, 0);
  plan.Duplicate(write);
  plan.ops[write + 1].waits = plan.ops[write].waits;  // both start at once
  set.plans[kTinySteady] = Tighten(plan);
  for (Link& link : set.links) {
    if (link.first == kTinySteady) ++link.waits[0].after;
  }
  const absl::Status status = VerifyPlanSet(set, BudgetsOf(set));
  EXPECT_NE(status.message().find("writes nvme 0+16384 in a race with"),
            absl::string_view::npos)
      << status;
}

TEST(Verifier, ResultsAreCompleteWhenTheStepEnds) {
  ExpectAllFound({
      {"perhaps after the step has ended",
       [](PlanSet& s) { --s.plans[kTinyFirst].result_op; }},
      {"reads inputs",
       [](PlanSet& s) {
         s.plans[kTinyEvaluate].result_op = 0;
         LoosePlan p = Loosen(s.plans[kTinyEvaluate]);
         std::swap(p.ops[0], p.ops[1]);
         p.ops[0].waits.clear();
         s.plans[kTinyEvaluate] = Tighten(p);
       }},
  });
}

TEST(Verifier, NamesFaultsOfLinks) {
  const auto link = [](PlanSet& s, int32_t first, int32_t second) -> Link& {
    return s.links[static_cast<size_t>(s.FindLink(first, second))];
  };
  ExpectAllFound({
      {"may follow train(settled, 1 micro-batch, speculating), but there is no link",
       [](PlanSet& s) { s.links.erase(s.links.begin()); }},
      {"it is there twice", [](PlanSet& s) { s.links.push_back(s.links[0]); }},
      {"may not follow",
       [](PlanSet& s) {
         s.links.push_back({kTinyFlush, kTinySteady, {}});
       }},
      {"there are 4 plans", [](PlanSet& s) { s.links[0].second = 4; }},
      {"out of range or out of order",
       [&](PlanSet& s) { link(s, kTinyFirst, kTinySteady).waits[0].after = 99; }},
      // The steady plan reads the gradient that the first one has just sent home.
      {"of the plan before, train(settled, 1 micro-batch, speculating): neither",
       [&](PlanSet& s) { link(s, kTinyFirst, kTinySteady).waits.clear(); }},
      {"of the plan before, flush(pending",
       [&](PlanSet& s) { link(s, kTinyFlush, kTinyFirst).waits[0].after = 0; }},
  });
}

TEST(Verifier, LanesOrderLinkedPlansToo) {
  // An evaluation after an evaluation: the same lanes do the same things, and only the
  // copies of results overtake the computing lane.
  PlanSet set = TinyPlanSet();
  Link& link =
      set.links[static_cast<size_t>(set.FindLink(kTinyEvaluate, kTinyEvaluate))];
  link.waits.clear();
  EXPECT_FALSE(VerifyPlanSet(set, BudgetsOf(set)).ok());
  // The inputs' buffer: loaded again only when the last layer has read it.
  const Plan& plan = set.plans[kTinyEvaluate];
  const uint32_t computed = FindOp(plan, OpCode::kForward, 1);
  const uint32_t inputs = FindOp(plan, OpCode::kCopy, -1, Role::kInputs);
  const uint32_t losses = FindOp(plan, OpCode::kCopy, 1, Role::kLoss);
  link.waits = {{inputs, computed}};
  EXPECT_FALSE(VerifyPlanSet(set, BudgetsOf(set)).ok());
  link.waits = {{inputs, computed}, {computed, losses}};
  const absl::Status status = VerifyPlanSet(set, BudgetsOf(set));
  EXPECT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace strata
