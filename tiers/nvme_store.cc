#include "tiers/nvme_store.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "tiers/swap_file.h"

namespace strata {
namespace {

constexpr size_t kDirectoryCountMax = 64;  // one bit each of a mask

absl::Status Check(const NvmeStoreOptions& options) {
  const auto refuse = [](absl::string_view what, int64_t value,
                         absl::string_view rule) {
    return absl::InvalidArgumentError(
        absl::StrCat("NVMe tier: ", what, " is ", value, ", but must be ", rule));
  };
  const int64_t chunk = options.chunk_bytes;
  if (options.directories.empty() || options.directories.size() > kDirectoryCountMax) {
    return refuse("the number of directories",
                  static_cast<int64_t>(options.directories.size()), "from 1 to 64");
  }
  if (options.capacity_bytes <= 0) {
    return refuse("the capacity", options.capacity_bytes, "positive");
  }
  if (chunk <= 0 || chunk % Store::kAlignment != 0 || chunk > ChunkQueue::kSizeMax) {
    return refuse("the chunk", chunk, "a multiple of 4096 bytes up to 1 GiB");
  }
  if (options.window_bytes < chunk) {
    return refuse("the window", options.window_bytes,
                  absl::StrCat("at least one chunk, ", chunk, " bytes"));
  }
  if (options.requests_in_flight_max <= 0 || options.extent_count_max <= 0) {
    return refuse(
        "the number of requests in flight or of extents",
        std::min<int64_t>(options.requests_in_flight_max, options.extent_count_max),
        "positive");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<NvmeStore>> NvmeStore::Create(NvmeStoreOptions options) {
  STRATA_RETURN_IF_ERROR(Check(options));
  auto store = std::unique_ptr<NvmeStore>(new NvmeStore(std::move(options)));
  STRATA_RETURN_IF_ERROR(store->MakeDirectories());
  STRATA_RETURN_IF_ERROR(store->StartWorkers());
  return store;
}

NvmeStore::NvmeStore(NvmeStoreOptions options)
    : options_(std::move(options)),
      reads_(IoOp::kRead, 0, options_.requests_in_flight_max),
      writes_(IoOp::kWrite, options_.requests_in_flight_max,
              options_.requests_in_flight_max) {}

NvmeStore::~NvmeStore() { Drain(); }

absl::Status NvmeStore::MakeDirectories() {
  std::vector<int64_t> limits_bytes;
  std::string offers;
  for (const NvmeDirectory& directory : options_.directories) {
    STRATA_ASSIGN_OR_RETURN(std::unique_ptr<SwapDirectory> swap,
                            SwapDirectory::Create(directory.path));
    STRATA_ASSIGN_OR_RETURN(const int64_t available, AvailableBytes(swap->path()));
    limits_bytes.push_back(std::min(available, directory.size_limit_bytes));
    absl::StrAppend(
        &offers, offers.empty() ? "" : ", ", directory.path, " offers ",
        FormatSize(limits_bytes.back()),
        available < directory.size_limit_bytes ? " (free space)" : " (limit)");
    directories_.push_back({.swap = std::move(swap)});
  }
  absl::StatusOr<StripeMap> map =
      StripeMap::Create(options_.capacity_bytes, options_.chunk_bytes, limits_bytes);
  if (!map.ok()) {
    return absl::Status(
        map.status().code(),
        absl::StrCat("NVMe tier: ", map.status().message(), ": ", offers));
  }
  map_ = std::make_unique<StripeMap>(*std::move(map));
  return absl::OkStatus();
}

absl::Status NvmeStore::StartWorkers() {
  for (size_t d = 0; d < directories_.size(); ++d) {
    if (map_->file_bytes(static_cast<int>(d)) == 0) continue;
    SwapWorkerOptions options{
        .directory = static_cast<int>(d),
        .directory_path = directories_[d].swap->path(),
        .map = map_.get(),
        .extent_count_max = options_.extent_count_max,
        .window_bytes = options_.window_bytes,
        .request_count_max = 2 * options_.requests_in_flight_max,
        .memory = options_.memory,
        .io_backend = options_.io_backend,
        .decorate_queue = options_.decorate_queue,
        .stall_limit = options_.stall_limit,
        .on_finished = [this](StoreRequest* request) { OnFinished(request); },
        .on_stalled = [this](absl::Status status) { OnStalled(std::move(status)); },
    };
    STRATA_ASSIGN_OR_RETURN(directories_[d].worker,
                            SwapWorker::Start(std::move(options)));
  }
  return absl::OkStatus();
}

Ticket NvmeStore::Read(int64_t offset, std::byte* memory, int64_t size_bytes,
                       absl::string_view name) {
  return Submit(reads_, offset, memory, size_bytes, name);
}

Ticket NvmeStore::Write(int64_t offset, const std::byte* memory, int64_t size_bytes,
                        absl::string_view name) {
  // Both lanes share the request type; nothing writes through a write's memory.
  return Submit(writes_, offset, const_cast<std::byte*>(memory), size_bytes, name);
}

void NvmeStore::RegisterMemory(std::span<const std::span<std::byte>> ranges) {
  STRATA_CHECK(in_flight_count_.load(std::memory_order_acquire) == 0);
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) directory.worker->BeginRegistration(ranges);
  }
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) directory.worker->AwaitRegistration();
  }
}

Ticket NvmeStore::Submit(RequestLane& lane, int64_t offset, std::byte* memory,
                         int64_t size_bytes, absl::string_view name) {
  STRATA_CHECK(offset >= 0 && size_bytes > 0);
  STRATA_CHECK(offset + size_bytes <= options_.capacity_bytes);
  STRATA_CHECK(offset % kAlignment == 0 && size_bytes % kAlignment == 0);
  STRATA_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0);
  Ticket ticket = 0;
  StoreRequest& request = lane.Begin(&ticket);
  request.offset = offset;
  request.memory = memory;
  request.size_bytes = size_bytes;
  request.name = name;
  uint64_t touched = 0;  // bit d: directory d
  for (int64_t at = offset; at < offset + size_bytes;) {
    const StripeMap::Place place = map_->At(at);
    touched |= uint64_t{1} << place.directory;
    at += place.size_bytes;
  }
  request.directories_left.store(std::popcount(touched), std::memory_order_relaxed);
  in_flight_count_.fetch_add(1, std::memory_order_relaxed);
  for (; touched != 0; touched &= touched - 1) {
    directories_[std::countr_zero(touched)].worker->Push(&request);
  }
  return ticket;
}

void NvmeStore::OnFinished(StoreRequest* request) {
  if (request->directories_left.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // The slot may be in use again from here on.
  MutexLock lock(mutex_);
  if (in_flight_count_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    drained_.NotifyAll();
  }
}

void NvmeStore::OnStalled(absl::Status status) {
  MutexLock lock(mutex_);
  if (!stall_.ok()) return;
  stall_ = std::move(status);
  is_stalled_.store(true, std::memory_order_release);
}

absl::StatusOr<Ticket> NvmeStore::Completed(RequestLane& lane) {
  absl::StatusOr<Ticket> completed = lane.Completed();
  if (!completed.ok() || !is_stalled_.load(std::memory_order_acquire)) return completed;
  MutexLock lock(mutex_);
  lane.Fail(stall_);
  return lane.Completed();
}

void NvmeStore::Drain() {
  MutexLock lock(mutex_);
  while (in_flight_count_.load(std::memory_order_acquire) != 0) drained_.Wait(mutex_);
}

int64_t NvmeStore::bytes_read() const {
  int64_t sum = 0;
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) sum += directory.worker->bytes_read();
  }
  return sum;
}

int64_t NvmeStore::bytes_written() const {
  int64_t sum = 0;
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) sum += directory.worker->bytes_written();
  }
  return sum;
}

int64_t NvmeStore::reread_count() const {
  int64_t sum = 0;
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) sum += directory.worker->reread_count();
  }
  return sum;
}

std::vector<std::string> NvmeStore::descriptions() const {
  std::vector<std::string> descriptions;
  for (const Directory& directory : directories_) {
    if (directory.worker != nullptr) {
      descriptions.push_back(directory.worker->description());
    }
  }
  return descriptions;
}

}  // namespace strata
