#include "tools/tierbench/drive_loop.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "runtime/base/crc32c.h"
#include "runtime/base/status.h"
#include "tiers/signals.h"

namespace strata {
namespace {

constexpr std::chrono::milliseconds kWait(50);

size_t PageOf(int64_t offset) {
  return static_cast<size_t>(offset / ChunkQueue::kAlignment);
}

uint32_t Sum(const Chunk& chunk) {
  return Crc32c(0, {chunk.memory, static_cast<size_t>(chunk.size_bytes)});
}

}  // namespace

DriveLoop::DriveLoop(DriveFile& drive, const DiskRunOptions& options, const Stop& stop,
                     DiskRunState& state)
    : drive_(drive), options_(options), stop_(stop), state_(state) {}

void DriveLoop::Run() {
  BlockAllSignals();
  status_ = SetUp();
  if (!status_.ok()) state_.has_failed = true;
  state_.ready.arrive_and_wait();
  if (!status_.ok()) return;
  Loop();
  result_.counters = queue_->counters();
  queue_ = nullptr;  // on the thread that made it
}

absl::Status DriveLoop::SetUp() {
  const int slot_count =
      static_cast<int>(std::max<int64_t>(options_.window_bytes / options_.chunk_bytes,
                                         options_.op == DiskOp::kMixed ? 2 : 1));
  IoQueueOptions queue_options{.depth = slot_count};
  queue_options.files = {{.descriptor = drive_.descriptor(), .path = drive_.path()}};
  if (options_.registers_memory) queue_options.memory = {drive_.memory()};
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> queue,
                          MakeIoQueue(options_.backend, queue_options));
  result_.queue_description = queue->description();
  queue_ = std::make_unique<ChunkQueue>(std::move(queue),
                                        std::vector<std::string>{drive_.path()});
  slots_.resize(static_cast<size_t>(slot_count));
  results_.resize(static_cast<size_t>(slot_count));
  for (auto& ring : open_shards_) ring.resize(static_cast<size_t>(slot_count) + 1);
  const int64_t data = drive_.data_bytes();
  lanes_.reserve(2);
  if (options_.op == DiskOp::kMixed) {
    // Halves of whole shards.
    const int64_t half = data / 2 / options_.shard_bytes * options_.shard_bytes;
    const int64_t border = half > 0 ? half : data / 2 / 4096 * 4096;
    AddLane(IoOp::kRead, 0, border, 0, slot_count / 2);
    AddLane(IoOp::kWrite, border, data, slot_count / 2, slot_count - slot_count / 2);
  } else {
    AddLane(options_.op == DiskOp::kRead ? IoOp::kRead : IoOp::kWrite, 0, data, 0,
            slot_count);
  }
  return absl::OkStatus();
}

void DriveLoop::AddLane(IoOp op, int64_t begin, int64_t end, int first_slot,
                        int slot_count) {
  Lane lane{.op = op, .begin = begin, .end = end, .next = begin};
  for (int i = slot_count - 1; i >= 0; --i) lane.free_slots.push_back(first_slot + i);
  lanes_.push_back(std::move(lane));
}

void DriveLoop::Loop() {
  start_ = NowSeconds();
  while (true) {
    const double now = NowSeconds() - start_;
    if (!is_warm_ && now >= options_.warm_up_seconds) {
      is_warm_ = true;
      result_.begin_seconds = now;
      cpu_at_begin_ = CpuTime::Now();
    }
    if (IsOver(now)) break;
    for (Lane& lane : lanes_) {
      while (!lane.free_slots.empty() && !IsOver(now)) Launch(lane);
    }
    Reap();
  }
  // A number of bytes has arrived when the last one has; after a time, what is still
  // under way does not count.
  const auto drain = [this] {
    while (queue_->in_flight_count() > 0) Reap();
  };
  if (options_.seconds == 0) drain();
  result_.end_seconds = NowSeconds() - start_;
  result_.cpu = CpuTime::Now() - cpu_at_begin_;
  result_.launched_bytes = launched_bytes_;
  CountWorkers();
  drain();
}

bool DriveLoop::IsOver(double now) const {
  if (stop_.asked() || state_.has_failed) return true;
  if (options_.seconds > 0) return now >= options_.warm_up_seconds + options_.seconds;
  return launched_bytes_ >= options_.bytes ||
         (options_.seconds_max > 0 && now >= options_.seconds_max);
}

void DriveLoop::Launch(Lane& lane) {
  const int index = lane.free_slots.back();
  lane.free_slots.pop_back();
  Slot& slot = slots_[static_cast<size_t>(index)];
  const double now = NowSeconds();
  const int64_t in_shard = (lane.next - lane.begin) % options_.shard_bytes;
  if (in_shard == 0) BeginShard(lane, now);
  const int64_t shard_end =
      std::min(lane.next - in_shard + options_.shard_bytes, lane.end);
  const int64_t size = std::min(options_.chunk_bytes, shard_end - lane.next);
  slot = {.lane = &lane, .shard = lane.shard, .start = now};
  slot.chunk = {.op = lane.op,
                .offset = lane.next,
                .memory = drive_.memory().data() + index * options_.chunk_bytes,
                .size_bytes = size,
                .tag = static_cast<uint64_t>(index),
                .name = "tierbench"};
  lane.next += size;
  launched_bytes_ += size;
  if (lane.next >= lane.end) lane.next = lane.begin;
  if (lane.op == IoOp::kWrite) {
    StampPages(slot.chunk);
    if (options_.verifies) {
      drive_.checksums()[PageOf(slot.chunk.offset)] = Sum(slot.chunk);
    }
  }
  queue_->Start(slot.chunk);
}

int64_t DriveLoop::BeginShard(Lane& lane, double now) {
  const int64_t size = std::min(options_.shard_bytes, lane.end - lane.next);
  ++lane.shard;
  ShardOf(lane.op, lane.shard) = {
      .chunks_left = (size + options_.chunk_bytes - 1) / options_.chunk_bytes,
      .start = now};
  return lane.shard;
}

DriveLoop::OpenShard& DriveLoop::ShardOf(IoOp op, int64_t shard) {
  auto& ring = open_shards_[static_cast<int>(op)];
  return ring[static_cast<size_t>(shard) % ring.size()];
}

void DriveLoop::Reap() {
  const int count = queue_->Reap(results_, kWait);
  const double now = NowSeconds();
  for (int i = 0; i < count; ++i) Land(results_[static_cast<size_t>(i)], now);
}

void DriveLoop::Land(const ChunkResult& result, double now) {
  Slot& slot = slots_[result.tag];
  Lane& lane = *slot.lane;
  absl::Status status = result.status;
  if (status.ok() && options_.verifies && lane.op == IoOp::kRead) {
    status = Verify(slot.chunk);
  }
  if (!status.ok() && status_.ok()) {
    status_ = std::move(status);
    state_.has_failed = true;
  }
  result_.progress.push_back(
      {.seconds = now - start_, .bytes = slot.chunk.size_bytes, .op = lane.op});
  OpenShard& shard = ShardOf(lane.op, slot.shard);
  const bool ends_shard = --shard.chunks_left == 0;
  if (is_warm_) {
    result_.chunk_us.push_back((now - slot.start) * 1e6);
    if (ends_shard) result_.shard_us.push_back((now - shard.start) * 1e6);
  }
  lane.free_slots.push_back(static_cast<int>(result.tag));
}

absl::Status DriveLoop::Verify(const Chunk& chunk) const {
  const uint32_t want = drive_.checksums()[PageOf(chunk.offset)];
  const uint32_t got = Sum(chunk);
  if (got == want) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "read at ", chunk.offset, "+", chunk.size_bytes, " in ", drive_.path(),
      ": these are not the bytes that were written (checksum wanted ",
      absl::StrFormat("%08x, got %08x)", want, got)));
}

/// Makes each page of a chunk unlike any other, so that a drive cannot deduplicate.
void DriveLoop::StampPages(const Chunk& chunk) {
  ++stamp_;
  for (int64_t at = 0; at < chunk.size_bytes; at += ChunkQueue::kAlignment) {
    const uint64_t stamp[2] = {stamp_, static_cast<uint64_t>(chunk.offset + at)};
    std::memcpy(chunk.memory + at, stamp, sizeof(stamp));
  }
}

void DriveLoop::CountWorkers() {
  std::error_code error;
  int64_t count = 0;
  for (std::filesystem::directory_iterator task("/proc/self/task", error), end;
       !error && task != end; task.increment(error)) {
    std::ifstream file(task->path() / "comm");
    std::string name;
    std::getline(file, name);
    count += name.rfind("iou-wrk", 0) == 0;
  }
  result_.kernel_workers_max = count;
}

}  // namespace strata
