/// The NVMe tier: a Store over one preallocated file in each of the user's directories.
/// The address space is striped over them; every chunk is checksummed when it is
/// written and checked when it is read. Nothing rests on the drives longer than the
/// store lives.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/mutex.h"
#include "runtime/base/types.h"
#include "runtime/storage/store.h"
#include "tiers/io_queue.h"
#include "tiers/request_lane.h"
#include "tiers/stripe_map.h"
#include "tiers/swap_directory.h"
#include "tiers/swap_worker.h"

namespace strata {

struct NvmeDirectory {
  std::string path;  // --nvme_path
  int64_t size_limit_bytes = INT64_MAX;
};

struct NvmeStoreOptions {
  std::vector<NvmeDirectory> directories;
  int64_t capacity_bytes = 0;
  /// At how many different offsets requests may begin.
  int64_t extent_count_max = 0;
  /// In each lane, from the oldest incomplete request to the newest.
  int requests_in_flight_max = 256;
  /// Unit of disk I/O, of checksums and of striping. Multiple of Store::kAlignment.
  int64_t chunk_bytes = 2 * kMiB;
  /// In flight in each directory at once; reads and writes share it.
  int64_t window_bytes = 16 * kMiB;
  /// Where requests' memory lies, if that is known already: see RegisterMemory.
  std::vector<std::span<std::byte>> memory;
  /// A drive that does not answer for this long fails the store.
  std::chrono::milliseconds stall_limit = std::chrono::minutes(2);
  IoBackend io_backend = IoBackend::kAuto;
  QueueDecorator decorate_queue;  // or null; called once for each directory
};

class NvmeStore final : public Store {
 public:
  /// Makes directories and files. InvalidArgument for options that make no sense,
  /// ResourceExhausted with the bytes needed and available for drives that are too
  /// small; after an error nothing is left on any drive.
  static absl::StatusOr<std::unique_ptr<NvmeStore>> Create(NvmeStoreOptions options);

  /// Waits for what is in flight and removes everything from the drives.
  ~NvmeStore() override;

  int64_t capacity_bytes() const override { return options_.capacity_bytes; }
  Ticket Read(int64_t offset, std::byte* memory, int64_t size_bytes,
              absl::string_view name) override;
  Ticket Write(int64_t offset, const std::byte* memory, int64_t size_bytes,
               absl::string_view name) override;
  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override;
  absl::StatusOr<Ticket> ReadsCompleted() override { return Completed(reads_); }
  absl::StatusOr<Ticket> WritesCompleted() override { return Completed(writes_); }

  /// Blocks for as long as a hung drive does: it may still write to the memory.
  void Drain() override;

  int64_t bytes_read() const override;
  int64_t bytes_written() const override;

  /// Chunks that were wrong at the first reading and right at the second.
  int64_t reread_count() const;
  /// Of each directory: its file, its backend and why that one, for the log.
  std::vector<std::string> descriptions() const;

 private:
  struct Directory {
    std::unique_ptr<SwapDirectory> swap;  // removed after its worker
    std::unique_ptr<SwapWorker> worker;
  };

  explicit NvmeStore(NvmeStoreOptions options);
  absl::Status MakeDirectories();
  absl::Status StartWorkers();
  Ticket Submit(RequestLane& lane, int64_t offset, std::byte* memory,
                int64_t size_bytes, absl::string_view name);
  absl::StatusOr<Ticket> Completed(RequestLane& lane);
  void OnFinished(StoreRequest* request);
  void OnStalled(absl::Status status);

  const NvmeStoreOptions options_;
  std::unique_ptr<StripeMap> map_;
  RequestLane reads_;
  RequestLane writes_;

  Mutex mutex_;
  CondVar drained_;
  std::atomic<int> in_flight_count_ = 0;  // falls to 0 under the mutex
  std::atomic<bool> is_stalled_ = false;
  absl::Status stall_ STRATA_GUARDED_BY(mutex_);  // the first

  std::vector<Directory> directories_;
};

}  // namespace strata
