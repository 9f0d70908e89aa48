/// The part of a DiskRun that happens on one drive's thread.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <vector>

#include "tools/tierbench/disk_run.h"

namespace strata {

/// What the drives of a run share.
struct DiskRunState {
  explicit DiskRunState(std::ptrdiff_t drive_count) : ready(drive_count) {}
  std::latch ready;
  std::atomic<bool> has_failed = false;
};

class DriveLoop {
 public:
  DriveLoop(DriveFile& drive, const DiskRunOptions& options, const Stop& stop,
            DiskRunState& state);

  /// On a thread of its own; returns when nothing is in flight.
  void Run();

  const absl::Status& status() const { return status_; }
  DiskRunResult& result() { return result_; }

 private:
  /// Chunks in one direction, one after the other through a range of the file.
  struct Lane {
    IoOp op = IoOp::kRead;
    int64_t begin = 0, end = 0;  // of the range
    int64_t next = 0;
    int64_t shard = 0;  // count of shards begun
    std::vector<int> free_slots;
  };
  struct Slot {
    Lane* lane = nullptr;
    int64_t shard = 0;
    double start = 0;
    Chunk chunk;
  };
  struct OpenShard {
    int64_t chunks_left = 0;
    double start = 0;
  };

  absl::Status SetUp();
  void AddLane(IoOp op, int64_t begin, int64_t end, int first_slot, int slot_count);
  void Loop();
  bool IsOver(double now) const;
  void Launch(Lane& lane);
  int64_t BeginShard(Lane& lane, double now);
  void Reap();
  void Land(const ChunkResult& result, double now);
  OpenShard& ShardOf(IoOp op, int64_t shard);
  absl::Status Verify(const Chunk& chunk) const;
  void StampPages(const Chunk& chunk);
  void CountWorkers();

  DriveFile& drive_;
  const DiskRunOptions& options_;
  const Stop& stop_;
  DiskRunState& state_;
  absl::Status status_;
  DiskRunResult result_;
  std::unique_ptr<ChunkQueue> queue_;
  std::vector<Lane> lanes_;
  std::vector<Slot> slots_;
  std::vector<OpenShard> open_shards_[2];  // by IoOp; a ring
  std::vector<ChunkResult> results_;
  uint64_t stamp_ = 0;
  int64_t launched_bytes_ = 0;
  double start_ = 0;
  bool is_warm_ = false;
  CpuTime cpu_at_begin_;
};

}  // namespace strata
