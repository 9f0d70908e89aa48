#include "tools/tierbench/store_bench.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "tools/tierbench/cpu_time.h"
#include "tools/tierbench/disk_samples.h"

namespace strata {
namespace {

constexpr double kWarmUpSeconds = 0.2;
/// Shards in memory at once: two under way in each direction hide each other's ends.
constexpr int kSlotCount = 6;
constexpr std::chrono::microseconds kPollInterval(200);

}  // namespace

absl::StatusOr<std::unique_ptr<StoreBench>> StoreBench::Create(DiskSettings settings,
                                                               const Stop& stop) {
  STRATA_RETURN_IF_ERROR(CheckDiskSettings(settings));
  auto bench = std::unique_ptr<StoreBench>(new StoreBench(std::move(settings)));
  const DiskSettings& s = bench->settings_;
  bench->shard_count_ = s.total_bytes / s.shard_bytes;
  bench->slot_count_ =
      static_cast<int>(std::min<int64_t>(kSlotCount, bench->shard_count_ / 2));
  STRATA_ASSIGN_OR_RETURN(
      bench->memory_, BenchMemory::Create(s.pages, bench->slot_count_ * s.shard_bytes));
  FillRandom(bench->memory_->span(), 1);
  NvmeStoreOptions options;
  for (const std::string& directory : s.directories) {
    options.directories.push_back({.path = directory});
  }
  options.capacity_bytes = bench->shard_count_ * s.shard_bytes;
  options.extent_count_max = bench->shard_count_;
  options.requests_in_flight_max = bench->slot_count_;
  options.chunk_bytes = s.chunk_bytes;
  options.window_bytes = s.window_bytes;
  options.io_backend = s.backend;
  if (s.registers_memory) options.memory = {bench->memory_->span()};
  STRATA_ASSIGN_OR_RETURN(bench->store_, NvmeStore::Create(std::move(options)));
  const absl::Status filled = bench->Fill(stop);
  if (!filled.ok()) bench->store_->Drain();
  STRATA_RETURN_IF_ERROR(filled);
  return bench;
}

/// One measurement: slots go through read, write or both, and begin again with the next
/// shard.
struct StoreBench::Run {
  enum class State : uint8_t { kIdle, kReading, kWriting };
  struct Slot {
    State state = State::kIdle;
    Ticket ticket = 0;
    int64_t shard = 0;
    double start = 0;
  };

  StoreBench& bench;
  const DiskOp op;
  std::vector<Slot> slots = std::vector<Slot>(static_cast<size_t>(bench.slot_count_));
  int64_t next_shard = 0;
  double start = NowSeconds();
  DiskRunResult result;

  std::byte* MemoryOf(const Slot& slot) const {
    return bench.memory_->data() + (&slot - slots.data()) * bench.shard_bytes();
  }
  void StartRead(Slot& slot) {
    slot.state = State::kReading;
    slot.ticket = bench.store_->Read(slot.shard * bench.shard_bytes(), MemoryOf(slot),
                                     bench.shard_bytes(), "shard");
  }
  void StartWrite(Slot& slot) {
    slot.state = State::kWriting;
    slot.ticket = bench.store_->Write(slot.shard * bench.shard_bytes(), MemoryOf(slot),
                                      bench.shard_bytes(), "shard");
  }
  void Begin(Slot& slot) {
    slot.shard = next_shard++ % bench.shard_count_;
    slot.start = NowSeconds();
    op == DiskOp::kWrite ? StartWrite(slot) : StartRead(slot);
  }
  void Count(Slot& slot, IoOp done) {
    const double now = NowSeconds();
    result.progress.push_back(
        {.seconds = now - start, .bytes = bench.shard_bytes(), .op = done});
    result.shard_us.push_back((now - slot.start) * 1e6);
    slot.start = now;
  }

  /// Whether anything has ended. Idle slots begin again while `begins`.
  absl::StatusOr<bool> Step(bool begins) {
    STRATA_ASSIGN_OR_RETURN(const Ticket reads, bench.store_->ReadsCompleted());
    STRATA_ASSIGN_OR_RETURN(const Ticket writes, bench.store_->WritesCompleted());
    bool has_moved = false;
    for (Slot& slot : slots) {
      if (slot.state == State::kReading && slot.ticket <= reads) {
        has_moved = true;
        Count(slot, IoOp::kRead);
        slot.state = State::kIdle;
        if (op == DiskOp::kMixed) StartWrite(slot);
      } else if (slot.state == State::kWriting && slot.ticket <= writes) {
        has_moved = true;
        Count(slot, IoOp::kWrite);
        slot.state = State::kIdle;
      }
      if (slot.state == State::kIdle && begins) Begin(slot);
    }
    return has_moved;
  }

  /// Until `is_over`, then whatever is under way.
  template <typename IsOver>
  absl::Status Go(IsOver is_over) {
    while (!is_over()) {
      STRATA_ASSIGN_OR_RETURN(const bool has_moved, Step(true));
      if (!has_moved) std::this_thread::sleep_for(kPollInterval);
    }
    return absl::OkStatus();
  }
  bool IsIdle() const {
    return std::all_of(slots.begin(), slots.end(),
                       [](const Slot& slot) { return slot.state == State::kIdle; });
  }
};

absl::Status StoreBench::Fill(const Stop& stop) {
  Run run{*this, DiskOp::kWrite};
  while (run.next_shard < shard_count_ || !run.IsIdle()) {
    STRATA_RETURN_IF_ERROR(stop.status());
    const double seconds = NowSeconds() - run.start;
    const bool is_late =
        settings_.fill_seconds_max > 0 && seconds > settings_.fill_seconds_max;
    if (is_late && run.next_shard >= 2 * slot_count_) shard_count_ = run.next_shard;
    bool begins = run.next_shard < shard_count_;
    // Step starts a shard for every idle slot: the last ones are started one by one.
    if (begins && shard_count_ - run.next_shard < slot_count_ && !run.IsIdle()) {
      begins = false;
    }
    STRATA_ASSIGN_OR_RETURN(const bool has_moved, run.Step(begins));
    if (!has_moved) std::this_thread::sleep_for(kPollInterval);
  }
  return absl::OkStatus();
}

absl::StatusOr<Phase> StoreBench::Measure(DiskOp op, const Stop& stop) {
  Run run{*this, op};
  const double seconds =
      settings_.loop_seconds > 0 ? settings_.loops * settings_.loop_seconds : 0;
  const int64_t passes = settings_.loops * shard_count_;
  CpuTime cpu = CpuTime::Now();
  absl::Status status = run.Go([&] {
    const double now = NowSeconds() - run.start;
    if (run.result.begin_seconds == 0 && seconds > 0 && now >= kWarmUpSeconds) {
      run.result.begin_seconds = now;
      cpu = CpuTime::Now();
    }
    return stop.asked() ||
           (seconds > 0 ? now >= kWarmUpSeconds + seconds : run.next_shard >= passes);
  });
  run.result.end_seconds = NowSeconds() - run.start;
  run.result.cpu = CpuTime::Now() - cpu;
  while (status.ok() && !run.IsIdle()) status = run.Step(false).status();
  store_->Drain();
  STRATA_RETURN_IF_ERROR(status);
  STRATA_RETURN_IF_ERROR(stop.status());
  run.result.queue_description = store_->descriptions().front();
  Phase phase = MakeDiskPhase(op, settings_, run.result);
  phase.name = op == DiskOp::kRead    ? "swap_read"
               : op == DiskOp::kWrite ? "swap_write"
                                      : "swap";
  phase.label = op == DiskOp::kRead    ? "nvme tier: shards in"
                : op == DiskOp::kWrite ? "nvme tier: shards out"
                                       : "nvme tier: in + out at once";
  phase.params["checksums"] = true;
  return phase;
}

}  // namespace strata
