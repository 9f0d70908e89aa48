#include "tests/support/interleavings.h"

#include <array>
#include <cmath>
#include <memory>

#include "tests/support/symbolic_memory.h"

namespace strata {
namespace {

bool IsTransfer(const Op& op) {
  return op.code == OpCode::kCopy || op.code == OpCode::kRead ||
         op.code == OpCode::kWrite;
}

/// One operation under way.
class Flight {
 public:
  Flight(const Plan& plan, const Op& op, SymbolicMemory& memory, uint64_t garbage)
      : plan_(plan), op_(op), memory_(memory), garbage_(garbage) {
    inputs_ = Inputs(/*skip_in_place=*/false);
    later_ = Inputs(/*skip_in_place=*/true);
    ForEachWritten(
        [&](const Access&, size_t word, size_t) { memory_[word] = garbage_; });
  }

  void End() {
    // Whoever changed what it reads, or wrote where it writes, spoils all its results.
    bool torn = Inputs(/*skip_in_place=*/true) != later_;
    ForEachWritten(
        [&](const Access&, size_t word, size_t) { torn |= memory_[word] != garbage_; });
    uint64_t hash = MixWord(garbage_, 7);
    if (!torn) hash = Digest();
    ForEachWritten([&](const Access& access, size_t word, size_t index) {
      if (access.value.role == Role::kScratch) return;  // stays garbage
      if (!torn && IsTransfer(op_)) {
        memory_[word] = index < inputs_.size() ? inputs_[index] : garbage_;
      } else {
        memory_[word] =
            op_.code == OpCode::kZero && !torn
                ? 0
                : MixWord(MixWord(hash, static_cast<uint64_t>(access.operand)), index);
      }
    });
  }

 private:
  template <typename Visit>
  void ForEachWritten(const Visit& visit) {
    for (const Access& access : plan_.Accesses(op_)) {
      if (access.mode != AccessMode::kWrite) continue;
      const SymbolicMemory::Words words = memory_.Find(access);
      for (size_t i = words.begin; i < words.end; ++i)
        visit(access, i, i - words.begin);
    }
  }
  bool IsWritten(size_t word) {
    bool written = false;
    ForEachWritten(
        [&](const Access&, size_t other, size_t) { written |= other == word; });
    return written;
  }
  std::vector<uint64_t> Inputs(bool skip_in_place) {
    std::vector<uint64_t> words;
    for (const Access& access : plan_.Accesses(op_)) {
      if (access.mode != AccessMode::kRead) continue;
      const SymbolicMemory::Words found = memory_.Find(access);
      if (skip_in_place && IsWritten(found.begin)) continue;
      if (!IsTransfer(op_)) words.push_back(static_cast<uint64_t>(access.operand));
      for (size_t i = found.begin; i < found.end; ++i) words.push_back(memory_[i]);
    }
    return words;
  }
  uint64_t Digest() const {
    uint64_t hash = static_cast<uint64_t>(op_.code) + 1;
    for (const int32_t part : {op_.layer, op_.micro_batch, op_.slice}) {
      hash = MixWord(hash, static_cast<uint64_t>(part) + 2);
    }
    for (const uint64_t word : inputs_) hash = MixWord(hash, word);
    return hash;
  }

  const Plan& plan_;
  const Op& op_;
  SymbolicMemory& memory_;
  const uint64_t garbage_;  // unlike any other, and what it writes until it ends
  std::vector<uint64_t> inputs_, later_;
};

/// The plans of a sequence (one, or two that are linked) in one schedule.
class Execution {
 public:
  Execution(const PlanSet& set, const std::vector<int32_t>& sequence, const Link* link,
            std::mt19937& random)
      : set_(set),
        link_(link),
        random_(random),
        garbage_(uint64_t{random()} << 32 | random()),
        memory_(set, set.plans[sequence.front()].key, garbage_) {
    for (const int32_t index : sequence) {
      const Plan& plan = set.plans[index];
      runs_.push_back({&plan, std::vector<bool>(plan.ops.size(), false), {}});
      for (uint32_t op = 0; op < plan.ops.size(); ++op) {
        lanes_[static_cast<size_t>(plan.ops[op].lane)].queue.push_back(
            {static_cast<uint32_t>(runs_.size()) - 1, op});
      }
      open_ += plan.ops.size();
    }
    // Lanes of very different speed make the schedules that matter.
    for (LaneState& lane : lanes_) {
      lane.speed = std::exp2(std::uniform_real_distribution<double>(0, 12)(random_));
    }
    eagerness_ = std::uniform_real_distribution<double>(0, 1)(random_) < 0.8 ? 1 : 0.3;
  }

  /// One operation after the other.
  void RunInListOrder() {
    for (Run& run : runs_) {
      for (uint32_t op = 0; op < run.plan->ops.size(); ++op) {
        Flight(*run.plan, run.plan->ops[op], memory_, ++garbage_).End();
        Complete(run, op);
      }
    }
  }
  /// False: it hangs.
  bool RunInSomeOrder() {
    while (open_ > 0) {
      StartSome();
      std::vector<double> weights;
      for (const LaneState& lane : lanes_) {
        weights.push_back(lane.flying.empty() ? 0 : lane.speed);
      }
      bool flying = false;
      for (const LaneState& lane : lanes_) flying |= !lane.flying.empty();
      if (!flying) {
        if (!StartAll()) return false;
        continue;
      }
      std::discrete_distribution<size_t> pick(weights.begin(), weights.end());
      EndOne(lanes_[pick(random_)]);
    }
    return true;
  }

  std::vector<uint64_t> Outcome() const {
    std::vector<uint64_t> words = memory_.Homes(set_, runs_.back().plan->key);
    for (const Run& run : runs_) {
      words.insert(words.end(), run.results.begin(), run.results.end());
    }
    return words;
  }

 private:
  struct Run {
    const Plan* plan;
    std::vector<bool> complete;     // by operation
    std::vector<uint64_t> results;  // as the trainer saw them
  };
  struct Ticket {
    uint32_t run, op;
  };
  struct Flying {
    Ticket ticket;
    std::unique_ptr<Flight> flight;
  };
  struct LaneState {
    std::vector<Ticket> queue;
    size_t next = 0;
    std::vector<Flying> flying;
    double speed = 1;
  };

  bool MayStart(const LaneState& lane, Lane name) const {
    if (lane.next == lane.queue.size()) return false;
    if (RunsOneByOne(name) && !lane.flying.empty()) return false;
    const Ticket ticket = lane.queue[lane.next];
    const Run& run = runs_[ticket.run];
    if (ticket.run > 0) {
      const Run& before = runs_[ticket.run - 1];
      if (!before.complete[before.plan->result_op]) return false;
      for (const Link::Wait& wait : link_->waits) {
        if (wait.op == ticket.op && !before.complete[wait.after]) return false;
      }
    }
    for (const uint32_t wait : run.plan->Waits(run.plan->ops[ticket.op])) {
      if (!run.complete[wait]) return false;
    }
    return true;
  }
  void Start(LaneState& lane) {
    const Ticket ticket = lane.queue[lane.next++];
    const Plan& plan = *runs_[ticket.run].plan;
    lane.flying.push_back({ticket, std::make_unique<Flight>(plan, plan.ops[ticket.op],
                                                            memory_, ++garbage_)});
  }
  bool StartAll() {
    bool started = false;
    for (size_t i = 0; i < lanes_.size(); ++i) {
      while (MayStart(lanes_[i], static_cast<Lane>(i))) {
        Start(lanes_[i]);
        started = true;
      }
    }
    return started;
  }
  void StartSome() {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      while (MayStart(lanes_[i], static_cast<Lane>(i)) &&
             std::bernoulli_distribution(eagerness_)(random_)) {
        Start(lanes_[i]);
      }
    }
  }
  void EndOne(LaneState& lane) {
    const size_t i =
        std::uniform_int_distribution<size_t>(0, lane.flying.size() - 1)(random_);
    const Ticket ticket = lane.flying[i].ticket;
    lane.flying[i].flight->End();
    lane.flying.erase(lane.flying.begin() + static_cast<std::ptrdiff_t>(i));
    Complete(runs_[ticket.run], ticket.op);
  }
  void Complete(Run& run, uint32_t op) {
    run.complete[op] = true;
    --open_;
    if (op != run.plan->result_op) return;
    run.results = memory_.Results(set_, run.plan->key);
    // The trainer writes the inputs of the next step.
    memory_.Fill(set_.layout.inputs_host,
                 1000 + static_cast<uint64_t>(&run - &runs_[0]));
  }

  const PlanSet& set_;
  const Link* link_;
  std::mt19937& random_;
  uint64_t garbage_;
  SymbolicMemory memory_;
  std::vector<Run> runs_;
  std::array<LaneState, kLaneCount> lanes_;
  size_t open_ = 0;
  double eagerness_ = 1;
};

}  // namespace

std::string Interleavings::Run(const PlanSet& set, const std::vector<int32_t>& sequence,
                               const Link* link, int count,
                               std::mt19937& random) const {
  Execution reference(right_, sequence, nullptr, random);
  reference.RunInListOrder();
  const std::vector<uint64_t> expected = reference.Outcome();
  for (int i = 0; i < count; ++i) {
    Execution execution(set, sequence, link, random);
    if (!execution.RunInSomeOrder()) return "it hangs";
    if (execution.Outcome() != expected) return "homes or results differ";
  }
  return "";
}

std::string Interleavings::RunAlone(const PlanSet& set, int32_t plan, int count,
                                    std::mt19937& random) const {
  return Run(set, {plan}, nullptr, count, random);
}

std::string Interleavings::RunLinked(const PlanSet& set, const Link& link, int count,
                                     std::mt19937& random) const {
  return Run(set, {link.first, link.second}, &link, count, random);
}

}  // namespace strata
