#include "tests/support/paced_machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <limits>

#include "runtime/base/status.h"

namespace strata {

class PacedMachine::PacedStream final : public Stream {
 public:
  PacedStream(PacedMachine& machine, const Device& device, Lane lane)
      : machine_(machine), device_(device), lane_(lane) {}

  const Device& device() const override { return device_; }
  void Wait(const Stream& other, Ticket ticket) override {
    STRATA_CHECK(&other.device() == &device_);
    next_.waits.emplace_back(static_cast<const PacedStream&>(other).lane_, ticket);
  }
  Ticket Copy(std::byte*, const std::byte*, int64_t size_bytes) override {
    next_.cost = machine_.TransferCost(OpCode::kCopy, lane_, size_bytes);
    return Submit();
  }
  Ticket Run(Task task) override {
    next_.task = task;
    return Submit();
  }
  absl::StatusOr<Ticket> Completed() override { return machine_.Completed(lane_); }
  absl::Status Synchronize() override {
    while (machine_.Completed(lane_) < machine_.At(lane_).submitted) machine_.Idle(1);
    return absl::OkStatus();
  }

 private:
  Ticket Submit() {
    next_.stream = this;
    return machine_.Submit(lane_, std::exchange(next_, {}));
  }

  PacedMachine& machine_;
  const Device& device_;
  const Lane lane_;
  Work next_;
};

class PacedMachine::PacedDevice final : public Device {
 public:
  explicit PacedDevice(PacedMachine& machine) : machine_(machine) {}
  DeviceKind kind() const override { return DeviceKind::kCpu; }
  absl::string_view name() const override { return "paced"; }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream(absl::string_view name,
                                                       int32_t) override {
    return std::make_unique<PacedStream>(machine_, *this, LaneNamed(name));
  }
  absl::StatusOr<int64_t> FreeBytes() const override { return int64_t{1} << 46; }

 private:
  absl::StatusOr<std::byte*> DoAllocate(MemoryKind, int64_t size_bytes) override {
    void* const range = mmap(nullptr, static_cast<size_t>(size_bytes), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    STRATA_CHECK(range != MAP_FAILED);
    return static_cast<std::byte*>(range);
  }
  void DoFree(MemoryKind, std::span<std::byte> bytes) noexcept override {
    munmap(bytes.data(), bytes.size());
  }

  PacedMachine& machine_;
};

class PacedMachine::PacedStore final : public Store {
 public:
  explicit PacedStore(PacedMachine& machine) : machine_(machine) {}
  int64_t capacity_bytes() const override { return machine_.set_.arena_bytes.nvme; }
  Ticket Read(int64_t, std::byte*, int64_t size_bytes, absl::string_view) override {
    return Submit(OpCode::kRead, Lane::kNvmeRead, size_bytes);
  }
  Ticket Write(int64_t, const std::byte*, int64_t size_bytes,
               absl::string_view) override {
    return Submit(OpCode::kWrite, Lane::kNvmeWrite, size_bytes);
  }
  absl::StatusOr<Ticket> ReadsCompleted() override {
    return machine_.Completed(Lane::kNvmeRead);
  }
  absl::StatusOr<Ticket> WritesCompleted() override {
    return machine_.Completed(Lane::kNvmeWrite);
  }
  void Drain() override {
    for (const Lane lane : {Lane::kNvmeRead, Lane::kNvmeWrite}) {
      while (!machine_.At(lane).pending.empty()) machine_.Idle(1);
    }
  }
  int64_t bytes_read() const override { return 0; }
  int64_t bytes_written() const override { return 0; }

 private:
  Ticket Submit(OpCode code, Lane lane, int64_t size_bytes) {
    Work work;
    work.cost = machine_.TransferCost(code, lane, size_bytes);
    return machine_.Submit(lane, std::move(work));
  }

  PacedMachine& machine_;
};

PacedMachine::PacedMachine(const PlanSet& set, const MachineProfile& profile)
    : set_(set),
      profile_(profile),
      device_(std::make_unique<PacedDevice>(*this)),
      host_device_(std::make_unique<PacedDevice>(*this)),
      store_(std::make_unique<PacedStore>(*this)) {}

PacedMachine::~PacedMachine() = default;

ExecutorOptions PacedMachine::Options(Devices devices) {
  return {.device = device_.get(),
          .host_device = devices == Devices::kOne ? device_.get() : host_device_.get(),
          .store = store_.get(),
          .runner = this,
          .clock = this};
}

void PacedMachine::Idle(int32_t) {
  do {
    StartWork();
  } while (!Advance());
}

absl::Status PacedMachine::Run(const OpCall& call, Stream&) {
  started_cost_ = CostOf(set_, call.plan, call.op, profile_);
  return absl::OkStatus();
}

Lane PacedMachine::LaneNamed(absl::string_view name) {
  int lane = 0;
  while (lane < kLaneCount && name != Name(static_cast<Lane>(lane))) ++lane;
  STRATA_CHECK(lane < kLaneCount);
  return static_cast<Lane>(lane);
}

Ticket PacedMachine::Submit(Lane lane, Work work) {
  At(lane).pending.push_back(std::move(work));
  return ++At(lane).submitted;
}

// The profile prices operations of plans: make one of this transfer.
OpCost PacedMachine::TransferCost(OpCode code, Lane lane, int64_t size_bytes) const {
  Plan plan;
  plan.ops.push_back({.code = code, .lane = lane, .access_count = 2});
  plan.accesses = {
      {Operand::kSource, AccessMode::kRead, TierKind::kHost, 0, size_bytes, {}},
      {Operand::kTarget, AccessMode::kWrite, TierKind::kHost, 0, size_bytes, {}}};
  return CostOf(set_, plan, plan.ops[0], profile_);
}

void PacedMachine::StartWork() {
  for (LaneState& lane : lanes_) {
    if (lane.is_running || lane.pending.empty()) continue;
    Work& work = lane.pending.front();
    const bool may_start = std::all_of(
        work.waits.begin(), work.waits.end(),
        [this](const auto& wait) { return Completed(wait.first) >= wait.second; });
    if (!may_start) continue;
    if (work.task.run != nullptr) {
      STRATA_CHECK(
          work.task.run(work.task.context, work.task.index, *work.stream).ok());
      work.cost = started_cost_;
    }
    lane.is_running = true;
    lane.overhead_seconds = work.cost.overhead_seconds;
    lane.work = work.cost.work;
  }
}

bool PacedMachine::Advance() {
  std::array<bool, kLaneCount> active;
  for (size_t i = 0; i < active.size(); ++i) {
    active[i] = lanes_[i].is_running && lanes_[i].overhead_seconds <= 0;
  }
  const std::array<double, kLaneCount> rates = LaneRates(profile_, active);
  std::array<double, kLaneCount> left;
  left.fill(std::numeric_limits<double>::infinity());
  for (size_t i = 0; i < left.size(); ++i) {
    const LaneState& lane = lanes_[i];
    if (!lane.is_running) continue;
    left[i] = !active[i]       ? lane.overhead_seconds
              : lane.work <= 0 ? 0
                               : lane.work / rates[i];
  }
  const double step = *std::min_element(left.begin(), left.end());
  STRATA_CHECK(step < std::numeric_limits<double>::infinity());  // nobody can go on
  now_ += step;
  const double rounding = 1e-12 * now_;  // ends that differ by less are one event
  bool has_ended = false;
  for (size_t i = 0; i < left.size(); ++i) {
    LaneState& lane = lanes_[i];
    if (!lane.is_running) continue;
    const bool ends = left[i] <= step + rounding;
    if (!active[i]) {
      lane.overhead_seconds = ends ? 0 : lane.overhead_seconds - step;
      if (!ends || lane.work > 0) continue;
    } else if (!ends) {
      lane.work -= rates[i] * step;
      continue;
    }
    lane.is_running = false;
    lane.pending.pop_front();
    has_ended = true;
  }
  return has_ended;
}

}  // namespace strata
