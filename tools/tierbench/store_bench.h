/// The NVMe tier as training uses it: the store with its striping, checksums and I/O
/// threads, shards in and out of page-aligned memory.
#pragma once

#include <absl/status/statusor.h>

#include <memory>

#include "tiers/nvme_store.h"
#include "tools/tierbench/bench_memory.h"
#include "tools/tierbench/disk_bench.h"
#include "tools/tierbench/phase.h"
#include "tools/tierbench/stop.h"

namespace strata {

class StoreBench {
 public:
  /// Makes the store and writes every shard once, fewer if that takes too long.
  static absl::StatusOr<std::unique_ptr<StoreBench>> Create(DiskSettings settings,
                                                            const Stop& stop);

  /// "swap_read", "swap_write", or for kMixed "swap": each shard is read, and written
  /// back while the next ones are read.
  absl::StatusOr<Phase> Measure(DiskOp op, const Stop& stop);

  Store& store() { return *store_; }
  int64_t shard_count() const { return shard_count_; }
  int64_t shard_bytes() const { return settings_.shard_bytes; }

 private:
  struct Run;  // of one measurement

  explicit StoreBench(DiskSettings settings) : settings_(std::move(settings)) {}
  absl::Status Fill(const Stop& stop);

  const DiskSettings settings_;
  int64_t shard_count_ = 0;
  int slot_count_ = 0;
  std::unique_ptr<BenchMemory> memory_;  // a shard for each slot
  std::unique_ptr<NvmeStore> store_;
};

}  // namespace strata
