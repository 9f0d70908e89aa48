#include "runtime/plan/executor_lanes.h"

#include <absl/strings/str_cat.h>

#include "runtime/base/size.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

std::array<bool, kLaneCount> LanesInUse(const PlanSet& set) {
  std::array<bool, kLaneCount> used = {};
  used[static_cast<size_t>(Lane::kHostToDevice)] = true;
  used[static_cast<size_t>(Lane::kDeviceToHost)] = true;
  for (const Plan& plan : set.plans) {
    for (const Op& op : plan.ops) used[static_cast<size_t>(op.lane)] = true;
  }
  return used;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutorLanes>> ExecutorLanes::Create(
    const PlanSet& set, const ExecutorOptions& options) {
  const int64_t capacity_bytes =
      options.store == nullptr ? 0 : options.store->capacity_bytes();
  if (capacity_bytes < set.arena_bytes.nvme) {
    return absl::FailedPreconditionError(
        absl::StrCat("the plans need ", FormatSize(set.arena_bytes.nvme),
                     " of nvme and the store holds ", FormatSize(capacity_bytes)));
  }
  std::unique_ptr<ExecutorLanes> lanes(new ExecutorLanes(options.store));
  const std::array<bool, kLaneCount> used = LanesInUse(set);
  for (size_t i = 0; i < used.size(); ++i) {
    const Lane lane = static_cast<Lane>(i);
    if (!used[i] || !RunsOneByOne(lane)) continue;
    if (lane == Lane::kCollective) {
      return absl::UnimplementedError("the plans use the collective lane");
    }
    Device* const device = lane == Lane::kCpu ? options.host_device : options.device;
    STRATA_CHECK(device != nullptr);
    STRATA_ASSIGN_OR_RETURN(lanes->streams_[i],
                            device->CreateStream(Name(lane), options.lane_depth));
  }
  return lanes;
}

bool ExecutorLanes::CanChain(Lane waiter, Lane awaited) const {
  const Stream* const first = StreamOf(waiter);
  const Stream* const second = StreamOf(awaited);
  return first != nullptr && second != nullptr && &first->device() == &second->device();
}

void ExecutorLanes::Chain(Lane waiter, Lane awaited, Ticket ticket) {
  if (waiter != awaited) StreamOf(waiter)->Wait(*StreamOf(awaited), ticket);
}

Ticket ExecutorLanes::Run(Lane lane, const Task& task) {
  return StreamOf(lane)->Run(task);
}

Ticket ExecutorLanes::Copy(Lane lane, std::byte* target, const std::byte* source,
                           int64_t size_bytes) {
  return StreamOf(lane)->Copy(target, source, size_bytes);
}

Ticket ExecutorLanes::Read(int64_t offset, std::byte* target, int64_t size_bytes,
                           absl::string_view name) {
  return store_->Read(offset, target, size_bytes, name);
}

Ticket ExecutorLanes::Write(int64_t offset, const std::byte* source, int64_t size_bytes,
                            absl::string_view name) {
  return store_->Write(offset, source, size_bytes, name);
}

absl::StatusOr<Ticket> ExecutorLanes::Completed(Lane lane) {
  if (lane == Lane::kNvmeRead) return store_->ReadsCompleted();
  if (lane == Lane::kNvmeWrite) return store_->WritesCompleted();
  return StreamOf(lane)->Completed();
}

void ExecutorLanes::Finish() {
  for (const auto& stream : streams_) {
    // The error, if any, is the one that Completed() reports.
    if (stream != nullptr) stream->Synchronize().IgnoreError();
  }
  if (store_ != nullptr) store_->Drain();
}

}  // namespace strata
