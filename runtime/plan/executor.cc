#include "runtime/plan/executor.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "runtime/base/host_memory.h"
#include "runtime/base/status.h"
#include "runtime/plan/executor_lanes.h"
#include "runtime/plan/plan_index.h"
#include "runtime/plan/plan_stepper.h"

namespace strata {
namespace {

bool IsAligned(const std::byte* memory) {
  return reinterpret_cast<uintptr_t>(memory) % Store::kAlignment == 0;
}

class PlanExecutor final : public Executor {
 public:
  PlanExecutor(const PlanSet& set, const ExecutorOptions& options)
      : set_(set), clock_(*options.clock), store_(options.store) {}
  ~PlanExecutor() override {
    if (stepper_ != nullptr) Drain().IgnoreError();  // Run() has reported the error
    // The arena goes; the store stays.
    if (has_registered_) {
      store_->Drain();
      store_->RegisterMemory({});
    }
  }

  absl::Status Start(const ExecutorOptions& options);

  absl::StatusOr<StepReport> Run(int32_t plan) override;
  absl::Status Drain() override;
  std::byte* host_memory() const override { return host_arena_.data(); }
  absl::Status ReadHome(const Extent& extent, std::span<std::byte> target) override;
  absl::Status WriteHome(const Extent& extent,
                         std::span<const std::byte> source) override;
  std::vector<TimelineSpan> Timeline() const override { return stepper_->Timeline(); }
  TierBytes allocated_bytes() const override {
    return {.device = device_arena_.size_bytes(),
            .host = host_arena_.size_bytes(),
            .nvme = set_.arena_bytes.nvme};
  }

 private:
  template <typename Condition>
  absl::Status StepUntil(Condition is_met);
  /// Waits for one piece of work outside of plans.
  absl::Status Await(Lane lane, Ticket ticket);
  /// Tells the store which part of the host arena it will transfer from and to.
  void RegisterStaging();
  /// Keeps the first error, after which nothing is submitted and nothing is under way.
  absl::Status Fail(absl::Status status);

  const PlanSet& set_;
  Clock& clock_;
  Store* const store_;  // null if the plans use no nvme
  bool has_registered_ = false;
  // Lanes finish before the arenas are freed under them.
  Buffer device_arena_;
  Buffer host_arena_;
  std::unique_ptr<ExecutorLanes> lanes_;
  std::unique_ptr<PlanStepper> stepper_;
  int32_t last_plan_ = -1;  // -1: drained
  absl::Status error_;
};

absl::Status PlanExecutor::Start(const ExecutorOptions& options) {
  STRATA_ASSIGN_OR_RETURN(lanes_, ExecutorLanes::Create(set_, options));
  STRATA_ASSIGN_OR_RETURN(
      device_arena_,
      options.device->Allocate(MemoryKind::kDevice, set_.arena_bytes.device));
  STRATA_ASSIGN_OR_RETURN(host_arena_, options.device->Allocate(MemoryKind::kPinnedHost,
                                                                set_.arena_bytes.host));
  RegisterStaging();
  stepper_ = std::make_unique<PlanStepper>(
      set_, options, *lanes_,
      ArenaAddresses{.device = device_arena_.data(), .host = host_arena_.data()});
  return absl::OkStatus();
}

void PlanExecutor::RegisterStaging() {
  if (store_ == nullptr) return;
  std::vector<std::span<std::byte>> memory;
  for (const HostRange& range : NvmeHostRanges(set_)) {
    const int64_t end = std::min(range.end, host_arena_.size_bytes());
    const int64_t size = (end - range.begin) / Store::kAlignment * Store::kAlignment;
    if (size <= 0) continue;
    memory.push_back(host_arena_.bytes().subspan(static_cast<size_t>(range.begin),
                                                 static_cast<size_t>(size)));
  }
  if (memory.empty()) return;
  store_->RegisterMemory(memory);
  has_registered_ = true;
}

absl::StatusOr<StepReport> PlanExecutor::Run(int32_t plan) {
  STRATA_RETURN_IF_ERROR(error_);
  STRATA_CHECK(plan >= 0 && plan < static_cast<int32_t>(set_.plans.size()));
  const int32_t link = last_plan_ < 0 ? -1 : set_.FindLink(last_plan_, plan);
  STRATA_CHECK(last_plan_ < 0 || link >= 0);  // may not follow
  STRATA_RETURN_IF_ERROR(StepUntil([this] { return stepper_->MayBegin(); }));
  stepper_->Begin(plan, link);
  last_plan_ = plan;
  STRATA_RETURN_IF_ERROR(StepUntil([this] { return stepper_->HasResults(); }));
  return stepper_->Close();
}

absl::Status PlanExecutor::Drain() {
  STRATA_RETURN_IF_ERROR(error_);
  STRATA_RETURN_IF_ERROR(StepUntil([this] { return stepper_->IsIdle(); }));
  last_plan_ = -1;
  return absl::OkStatus();
}

template <typename Condition>
absl::Status PlanExecutor::StepUntil(Condition is_met) {
  while (!is_met()) {
    if (absl::Status status = stepper_->Step(); !status.ok()) {
      return Fail(std::move(status));
    }
  }
  return absl::OkStatus();
}

absl::Status PlanExecutor::Fail(absl::Status status) {
  lanes_->Finish();
  error_ = std::move(status);
  return error_;
}

absl::Status PlanExecutor::Await(Lane lane, Ticket ticket) {
  for (int32_t rounds = 1;; ++rounds) {
    const absl::StatusOr<Ticket> completed = lanes_->Completed(lane);
    if (!completed.ok()) return Fail(completed.status());
    if (*completed >= ticket) return absl::OkStatus();
    clock_.Idle(rounds);
  }
}

absl::Status PlanExecutor::ReadHome(const Extent& extent, std::span<std::byte> target) {
  STRATA_RETURN_IF_ERROR(error_);
  STRATA_CHECK(last_plan_ < 0 &&
               static_cast<int64_t>(target.size()) == extent.size_bytes);
  if (target.empty()) return absl::OkStatus();
  if (extent.tier == TierKind::kHost) {
    std::memcpy(target.data(), host_arena_.data() + extent.offset, target.size());
    return absl::OkStatus();
  }
  if (extent.tier == TierKind::kDevice) {
    return Await(Lane::kDeviceToHost,
                 lanes_->Copy(Lane::kDeviceToHost, target.data(),
                              device_arena_.data() + extent.offset, extent.size_bytes));
  }
  const std::string name = DescribeHome(set_, extent);
  if (IsAligned(target.data())) {
    return Await(Lane::kNvmeRead,
                 lanes_->Read(extent.offset, target.data(), extent.size_bytes, name));
  }
  STRATA_ASSIGN_OR_RETURN(std::byte* const memory, MapHostMemory(extent.size_bytes));
  const absl::Cleanup unmap = [&] { UnmapHostMemory({memory, target.size()}); };
  STRATA_RETURN_IF_ERROR(Await(
      Lane::kNvmeRead, lanes_->Read(extent.offset, memory, extent.size_bytes, name)));
  std::memcpy(target.data(), memory, target.size());
  return absl::OkStatus();
}

absl::Status PlanExecutor::WriteHome(const Extent& extent,
                                     std::span<const std::byte> source) {
  STRATA_RETURN_IF_ERROR(error_);
  STRATA_CHECK(last_plan_ < 0 &&
               static_cast<int64_t>(source.size()) == extent.size_bytes);
  if (source.empty()) return absl::OkStatus();
  if (extent.tier == TierKind::kHost) {
    std::memcpy(host_arena_.data() + extent.offset, source.data(), source.size());
    return absl::OkStatus();
  }
  if (extent.tier == TierKind::kDevice) {
    return Await(Lane::kHostToDevice,
                 lanes_->Copy(Lane::kHostToDevice, device_arena_.data() + extent.offset,
                              source.data(), extent.size_bytes));
  }
  const std::string name = DescribeHome(set_, extent);
  if (IsAligned(source.data())) {
    return Await(Lane::kNvmeWrite,
                 lanes_->Write(extent.offset, source.data(), extent.size_bytes, name));
  }
  STRATA_ASSIGN_OR_RETURN(std::byte* const memory, MapHostMemory(extent.size_bytes));
  const absl::Cleanup unmap = [&] { UnmapHostMemory({memory, source.size()}); };
  std::memcpy(memory, source.data(), source.size());
  return Await(Lane::kNvmeWrite,
               lanes_->Write(extent.offset, memory, extent.size_bytes, name));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    const PlanSet& set, const ExecutorOptions& options) {
  STRATA_CHECK(options.device != nullptr && options.runner != nullptr);
  STRATA_CHECK(options.lane_depth > 0 && options.timeline_steps >= 0);
  auto executor = std::make_unique<PlanExecutor>(set, options);
  STRATA_RETURN_IF_ERROR(executor->Start(options));
  return executor;
}

}  // namespace strata
