/// A machine in virtual time for the real executor: streams and a store whose work
/// takes as long as a MachineProfile says, while lanes share what they share. Its
/// memory has addresses and no bytes, so that plans of any size run. Time passes while
/// the executor idles.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/plan/executor.h"
#include "runtime/plan/machine_profile.h"
#include "runtime/plan/plan.h"
#include "runtime/storage/store.h"

namespace strata {

/// Not thread-safe. `set` and `profile` outlive it, and it outlives its executors.
class PacedMachine final : public Clock, public OperationRunner {
 public:
  PacedMachine(const PlanSet& set, const MachineProfile& profile);
  ~PacedMachine() override;

  enum class Devices { kOne, kTwo };
  /// Everything on this machine; the cpu lane on a device of its own or on the same.
  ExecutorOptions Options(Devices devices);

  // Clock
  double Seconds() override { return now_; }
  void Idle(int32_t idle_rounds) override;

  // OperationRunner: only says what an operation costs, as it starts.
  absl::Status Run(const OpCall& call, Stream& stream) override;

 private:
  class PacedDevice;
  class PacedStream;
  class PacedStore;

  struct Work {
    Task task;  // or, if task.run is null, a transfer of this cost
    Stream* stream = nullptr;
    OpCost cost;
    std::vector<std::pair<Lane, Ticket>> waits;
  };
  struct LaneState {
    std::deque<Work> pending;  // the first one is under way if is_running
    Ticket submitted = 0;
    bool is_running = false;
    double overhead_seconds = 0;  // left
    double work = 0;              // left
  };

  static Lane LaneNamed(absl::string_view name);
  LaneState& At(Lane lane) { return lanes_[static_cast<size_t>(lane)]; }
  Ticket Submit(Lane lane, Work work);
  Ticket Completed(Lane lane) {
    return At(lane).submitted - static_cast<Ticket>(At(lane).pending.size());
  }
  OpCost TransferCost(OpCode code, Lane lane, int64_t size_bytes) const;
  void StartWork();
  /// To the next instant at which an overhead or a piece of work ends. True if work
  /// did.
  bool Advance();

  const PlanSet& set_;
  const MachineProfile& profile_;
  std::array<LaneState, kLaneCount> lanes_;
  OpCost started_cost_;  // of the task that starts
  double now_ = 0;
  std::unique_ptr<PacedDevice> device_, host_device_;
  std::unique_ptr<PacedStore> store_;
};

}  // namespace strata
