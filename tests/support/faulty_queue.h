/// An IoQueue that does to its user what drives, kernels and signals do: errors, short
/// transfers, wrong bytes, lost writes, outcomes that come late or out of order. The
/// faults follow from a list and a seed, so that a failure can be repeated.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/support/page_buffer.h"
#include "tiers/io_queue.h"

namespace strata {

struct Fault {
  enum class Kind {
    kErrno,      // the attempt is not made; `value` is the errno
    kShort,      // the transfer ends after `value` bytes; 0: it moves nothing
    kFlip,       // one bit of byte `value` changes on the way
    kLostWrite,  // the write reports success and never happens
    kDelay,      // the outcome comes after `value` others, or when nothing else can
    kHang,       // the outcome comes after EndHangs()
  };
  IoOp op = IoOp::kRead;
  int attempt = 0;  // the how-manieth of this op in the queue's life, from 0
  Kind kind = Kind::kErrno;
  int64_t value = 0;
};

class FaultyQueue final : public IoQueue {
 public:
  FaultyQueue(std::unique_ptr<IoQueue> inner, std::vector<Fault> faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}

  /// Outcomes come in a random order that follows from the seed.
  void ReorderBy(uint32_t seed) {
    reorders_ = true;
    random_.seed(seed);
  }

  int depth() const override { return inner_->depth(); }
  void Wake() override { inner_->Wake(); }
  std::string description() const override { return "faulty " + inner_->description(); }

  void Submit(const IoAttempt& attempt) override {
    const Fault* fault = NextFault(attempt.op);
    Pending& pending = pending_[attempt.tag];
    pending = {.attempt = attempt, .fault = fault};
    IoAttempt changed = attempt;
    if (fault != nullptr) {
      switch (fault->kind) {
        case Fault::Kind::kErrno:
          return Finish({attempt.tag, -fault->value});
        case Fault::Kind::kLostWrite:
          return Finish({attempt.tag, attempt.size_bytes});
        case Fault::Kind::kShort:
          changed.size_bytes = std::min(fault->value, attempt.size_bytes);
          if (changed.size_bytes == 0) return Finish({attempt.tag, 0});
          break;
        case Fault::Kind::kFlip:
          if (attempt.op == IoOp::kRead) break;
          pending.copy = std::make_unique<PageBuffer>(attempt.size_bytes);
          std::memcpy(pending.copy->data(), attempt.memory,
                      static_cast<size_t>(attempt.size_bytes));
          changed.memory = pending.copy->data();
          changed.memory[fault->value] ^= std::byte{4};
          break;
        case Fault::Kind::kDelay:
        case Fault::Kind::kHang:
          break;
      }
    }
    ++inner_count_;
    inner_->Submit(changed);
  }

  int Reap(std::span<IoOutcome> outcomes, std::chrono::milliseconds wait) override {
    using std::chrono::milliseconds;
    Collect(ready_.empty() ? wait : milliseconds(0));
    if (!hangs_.load()) ready_.splice(ready_.end(), hung_);
    // When nothing else is under way, what was held back has waited long enough. With
    // random order, everything is held back until then.
    if (ready_.empty() && inner_count_ == 0) ReleaseHeld();
    int count = 0;
    while (!ready_.empty() && count < static_cast<int>(outcomes.size())) {
      outcomes[count++] = ready_.front();
      ready_.pop_front();
    }
    return count;
  }

  /// Any thread.
  void EndHangs() {
    hangs_.store(false);
    inner_->Wake();
  }

  /// Faults that have happened.
  int fault_count() const { return fault_count_; }

 private:
  struct Pending {
    IoAttempt attempt;
    const Fault* fault = nullptr;
    std::unique_ptr<PageBuffer> copy;
  };
  struct Held {
    IoOutcome outcome;
    int64_t others_left;
  };

  const Fault* NextFault(IoOp op) {
    const int attempt = attempt_count_[static_cast<int>(op)]++;
    for (const Fault& fault : faults_) {
      if (fault.op != op || fault.attempt != attempt) continue;
      ++fault_count_;
      return &fault;
    }
    return nullptr;
  }

  void Collect(std::chrono::milliseconds wait) {
    std::vector<IoOutcome> outcomes(static_cast<size_t>(inner_->depth()));
    if (inner_count_ == 0 && !held_.empty()) wait = std::chrono::milliseconds(0);
    const int count = inner_->Reap(outcomes, wait);
    inner_count_ -= count;
    for (int i = 0; i < count; ++i) Finish(outcomes[i]);
  }

  void Finish(IoOutcome outcome) {
    const auto pending = pending_.find(outcome.tag);
    const Fault* fault = pending->second.fault;
    const bool flips = fault != nullptr && fault->kind == Fault::Kind::kFlip;
    if (flips && pending->second.attempt.op == IoOp::kRead) {
      pending->second.attempt.memory[fault->value] ^= std::byte{4};
    }
    pending_.erase(pending);
    if (fault != nullptr && fault->kind == Fault::Kind::kHang) {
      hung_.push_back(outcome);
      return;
    }
    const bool delays = fault != nullptr && fault->kind == Fault::Kind::kDelay;
    if (delays || reorders_) {
      held_.push_back({outcome, delays ? fault->value : INT64_MAX});
      return;
    }
    ready_.push_back(outcome);
    for (auto held = held_.begin(); held != held_.end();) {
      if (--held->others_left > 0) {
        ++held;
        continue;
      }
      ready_.push_back(held->outcome);
      held = held_.erase(held);
    }
  }

  void ReleaseHeld() {
    std::shuffle(held_.begin(), held_.end(), random_);
    for (const Held& held : held_) ready_.push_back(held.outcome);
    held_.clear();
  }

  std::unique_ptr<IoQueue> inner_;
  const std::vector<Fault> faults_;
  bool reorders_ = false;
  std::mt19937 random_;
  int attempt_count_[2] = {0, 0};
  int fault_count_ = 0;
  int inner_count_ = 0;
  std::unordered_map<uint64_t, Pending> pending_;
  std::vector<Held> held_;
  std::list<IoOutcome> ready_;
  std::list<IoOutcome> hung_;
  std::atomic<bool> hangs_ = true;
};

}  // namespace strata
