#include "tools/tierbench/nvme_device_bench.h"

#include <absl/cleanup/cleanup.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "tools/tierbench/cpu_time.h"
#include "tools/tierbench/disk_samples.h"

namespace strata {
namespace {

constexpr int kSlotCount = 6;
constexpr std::chrono::microseconds kPollInterval(50);

/// Shards on their way: first over the drive and then over the link, or the other way
/// round.
class Pipeline {
 public:
  Pipeline(StoreBench& store, Way way) : store_(store), way_(way) {}

  absl::Status Open(Device& device) {
    const int64_t bytes = store_.shard_bytes();
    const int count =
        static_cast<int>(std::min<int64_t>(kSlotCount, store_.shard_count() / 2));
    slots_.resize(static_cast<size_t>(count));
    STRATA_ASSIGN_OR_RETURN(host_,
                            device.Allocate(MemoryKind::kPinnedHost, count * bytes));
    STRATA_ASSIGN_OR_RETURN(device_,
                            device.Allocate(MemoryKind::kDevice, count * bytes));
    STRATA_ASSIGN_OR_RETURN(stream_, device.CreateStream("nvme-device", 64));
    const std::span<std::byte> range = host_.bytes();
    store_.store().RegisterMemory({&range, 1});
    return absl::OkStatus();
  }

  /// What is under way ends first: the memory goes.
  void Close() {
    store_.store().Drain();
    if (stream_ != nullptr) stream_->Synchronize().IgnoreError();
    store_.store().RegisterMemory({});
  }

  /// Whether anything has ended; idle slots begin again while `begins`.
  absl::StatusOr<bool> Step(bool begins, std::vector<DiskProgress>& progress,
                            double start) {
    Store& store = store_.store();
    STRATA_ASSIGN_OR_RETURN(const Ticket on_drive, way_ == Way::kToDevice
                                                       ? store.ReadsCompleted()
                                                       : store.WritesCompleted());
    STRATA_ASSIGN_OR_RETURN(const Ticket on_link, stream_->Completed());
    bool has_moved = false;
    for (size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      const bool is_done = (slot.state == State::kDrive && slot.ticket <= on_drive) ||
                           (slot.state == State::kLink && slot.ticket <= on_link);
      if (is_done) {
        has_moved = true;
        const bool is_first = (slot.state == State::kDrive) == (way_ == Way::kToDevice);
        if (is_first) {
          slot.state == State::kDrive ? StartLink(i) : StartDrive(i);
        } else {
          slot.state = State::kIdle;
          progress.push_back(
              {.seconds = NowSeconds() - start, .bytes = store_.shard_bytes()});
        }
      }
      if (slot.state == State::kIdle && begins) {
        slot.shard = next_shard_++ % store_.shard_count();
        way_ == Way::kToDevice ? StartDrive(i) : StartLink(i);
      }
    }
    return has_moved;
  }
  bool IsIdle() const {
    return std::all_of(slots_.begin(), slots_.end(),
                       [](const Slot& slot) { return slot.state == State::kIdle; });
  }

 private:
  enum class State : uint8_t { kIdle, kDrive, kLink };
  struct Slot {
    State state = State::kIdle;
    Ticket ticket = 0;
    int64_t shard = 0;
  };

  void StartDrive(size_t i) {
    const int64_t bytes = store_.shard_bytes();
    std::byte* const memory = host_.data() + static_cast<int64_t>(i) * bytes;
    const int64_t offset = slots_[i].shard * bytes;
    slots_[i].state = State::kDrive;
    slots_[i].ticket = way_ == Way::kToDevice
                           ? store_.store().Read(offset, memory, bytes, "shard")
                           : store_.store().Write(offset, memory, bytes, "shard");
  }
  void StartLink(size_t i) {
    const int64_t bytes = store_.shard_bytes();
    const int64_t at = static_cast<int64_t>(i) * bytes;
    slots_[i].state = State::kLink;
    slots_[i].ticket =
        way_ == Way::kToDevice
            ? stream_->Copy(device_.data() + at, host_.data() + at, bytes)
            : stream_->Copy(host_.data() + at, device_.data() + at, bytes);
  }

  StoreBench& store_;
  const Way way_;
  Buffer host_, device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Slot> slots_;
  int64_t next_shard_ = 0;
};

}  // namespace

absl::StatusOr<Phase> MeasureNvmeDevice(StoreBench& store, Device& device, Way way,
                                        double seconds, const Stop& stop) {
  Pipeline pipeline(store, way);
  const absl::Cleanup close = [&] { pipeline.Close(); };
  STRATA_RETURN_IF_ERROR(pipeline.Open(device));
  DiskRunResult result;
  const double start = NowSeconds();
  constexpr double kWarmUpShare = 0.1;
  result.begin_seconds = kWarmUpShare * seconds;
  CpuTime before = CpuTime::Now();
  bool is_warm = false;
  double now = 0;
  while (!stop.asked() && (now < seconds || !pipeline.IsIdle())) {
    STRATA_ASSIGN_OR_RETURN(const bool has_moved,
                            pipeline.Step(now < seconds, result.progress, start));
    if (!has_moved) std::this_thread::sleep_for(kPollInterval);
    now = NowSeconds() - start;
    if (!is_warm && now >= result.begin_seconds) {
      is_warm = true;
      before = CpuTime::Now();
    }
  }
  STRATA_RETURN_IF_ERROR(stop.status());
  result.cpu = CpuTime::Now() - before;
  result.end_seconds = seconds;
  DiskSettings settings;
  settings.shard_bytes = store.shard_bytes();
  Phase phase = MakeDiskPhase(DiskOp::kRead, settings, result);
  phase.params = {{"shard_bytes", store.shard_bytes()},
                  {"device", std::string(device.name())}};
  phase.name = way == Way::kToDevice ? "nvme_to_device" : "device_to_nvme";
  phase.label = way == Way::kToDevice ? "nvme to device, through host"
                                      : "device to nvme, through host";
  return phase;
}

}  // namespace strata
