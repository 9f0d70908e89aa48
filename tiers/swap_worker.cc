#include "tiers/swap_worker.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/status.h"
#include "tiers/signals.h"

namespace strata {
namespace {

constexpr int kQueueDepth = 64;
constexpr std::chrono::milliseconds kIdleWait = std::chrono::hours(1);
constexpr std::chrono::milliseconds kBusyWait(500);  // to look for stalls

int64_t ChunkCountMax(const SwapWorkerOptions& options) {
  // A chunk begins where a cell or an extent begins.
  return options.map->file_bytes(options.directory) / options.map->cell_bytes() +
         options.extent_count_max + 1;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SwapWorker>> SwapWorker::Start(
    SwapWorkerOptions options) {
  auto worker = std::unique_ptr<SwapWorker>(new SwapWorker(std::move(options)));
  worker->thread_ = std::thread([raw = worker.get()] { raw->Run(); });
  MutexLock lock(worker->mutex_);
  while (!worker->set_up_status_.has_value()) worker->set_up_.Wait(worker->mutex_);
  if (!worker->set_up_status_->ok()) {
    const absl::Status status = *worker->set_up_status_;
    return status;
  }
  return worker;
}

SwapWorker::SwapWorker(SwapWorkerOptions options)
    : options_(std::move(options)),
      inbox_(options_.request_count_max),
      checksums_(ChunkCountMax(options_)),
      reads_(options_.request_count_max),
      writes_(options_.request_count_max),
      flights_(kQueueDepth),
      unchecked_(kQueueDepth),
      results_(kQueueDepth),
      chunks_out_(static_cast<size_t>(options_.request_count_max)),
      is_cut_(static_cast<size_t>(options_.request_count_max)) {
  for (int i = 0; i < kQueueDepth; ++i) free_flights_.push_back(i);
}

SwapWorker::~SwapWorker() {
  bool runs = false;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    runs = set_up_status_.has_value() && set_up_status_->ok();
    if (runs) queue_->Wake();
  }
  thread_.join();
}

void SwapWorker::Push(StoreRequest* request) {
  MutexLock lock(mutex_);
  inbox_.Push(request);
  if (!std::exchange(sleeping_, false)) return;
  queue_->Wake();
}

void SwapWorker::BeginRegistration(std::span<const std::span<std::byte>> memory) {
  MutexLock lock(mutex_);
  new_memory_.emplace(memory.begin(), memory.end());
  sleeping_ = false;
  queue_->Wake();
}

void SwapWorker::AwaitRegistration() {
  MutexLock lock(mutex_);
  while (new_memory_.has_value()) registered_.Wait(mutex_);
}

std::string SwapWorker::description() {
  MutexLock lock(mutex_);
  return description_;
}

void SwapWorker::Run() {
  BlockAllSignals();
  const absl::Status status = SetUp();
  {
    MutexLock lock(mutex_);
    set_up_status_ = status;
    set_up_.NotifyOne();
  }
  if (!status.ok()) return;
  while (TakeRequests()) {
    RegisterMemory();
    Dispatch();
    Reap(ChooseWait());
    CheckOldest();
    ReportStalls();
  }
  queue_ = nullptr;  // on the thread that made it
}

absl::Status SwapWorker::SetUp() {
  STRATA_ASSIGN_OR_RETURN(file_,
                          CreateSwapFile(options_.directory_path,
                                         options_.map->file_bytes(options_.directory)));
  IoQueueOptions queue_options;
  queue_options.depth = kQueueDepth;
  queue_options.files = {{.descriptor = file_.descriptor.get(), .path = file_.path}};
  queue_options.memory = options_.memory;
  STRATA_ASSIGN_OR_RETURN(OpenedQueue opened,
                          OpenIoQueue(options_.io_backend, queue_options));
  why_backend_ = std::move(opened.why);
  if (options_.decorate_queue != nullptr) {
    opened.queue = options_.decorate_queue(std::move(opened.queue));
  }
  queue_ = std::make_unique<ChunkQueue>(std::move(opened.queue),
                                        std::vector<std::string>{file_.path});
  MutexLock lock(mutex_);
  description_ = Describe();
  return absl::OkStatus();
}

std::string SwapWorker::Describe() const {
  return absl::StrCat(
      file_.path, ": ", why_backend_, "; ", queue_->description(),
      file_.is_direct ? "" : "; through the page cache, as there is no O_DIRECT here");
}

void SwapWorker::RegisterMemory() {
  std::vector<std::span<std::byte>> memory;
  {
    MutexLock lock(mutex_);
    if (!new_memory_.has_value()) return;
    memory = *new_memory_;
  }
  queue_->RegisterMemory(memory);
  MutexLock lock(mutex_);
  description_ = Describe();
  new_memory_.reset();
  registered_.NotifyAll();
}

bool SwapWorker::TakeRequests() {
  MutexLock lock(mutex_);
  while (!inbox_.empty()) {
    StoreRequest* request = inbox_.Pop();
    is_cut_[request->index] = false;
    lane(request->op).requests.Push(request);
  }
  const bool has_work = !reads_.requests.empty() || !writes_.requests.empty() ||
                        queue_->in_flight_count() > 0 || !unchecked_.empty();
  return has_work || !stopping_;
}

/// Decided only now, since each Reap() may have used up the Wake() of a new request.
std::chrono::milliseconds SwapWorker::ChooseWait() {
  MutexLock lock(mutex_);
  const bool has_more = !inbox_.empty() || !unchecked_.empty();
  if (has_more || stopping_ || new_memory_.has_value())
    return std::chrono::milliseconds(0);
  sleeping_ = true;
  if (queue_->in_flight_count() == 0) return kIdleWait;
  return std::min(kBusyWait, options_.stall_limit);
}

void SwapWorker::Dispatch() {
  while (Lane* lane = ChooseLane()) {
    DispatchNext(*lane);
    // Hand each chunk over before the next one's checksum is computed.
    Reap(std::chrono::milliseconds(0));
  }
}

/// The lane whose next chunk may start, or null. While both lanes have work, each has
/// half of the window, so that neither waits for the other.
SwapWorker::Lane* SwapWorker::ChooseLane() {
  if (free_flights_.empty()) return nullptr;
  const int64_t in_flight = reads_.in_flight_bytes + writes_.in_flight_bytes;
  const int64_t cell = options_.map->cell_bytes();
  Lane* chosen = nullptr;
  for (Lane* candidate : {&reads_, &writes_}) {
    const Lane& other = candidate == &reads_ ? writes_ : reads_;
    if (candidate->requests.empty()) continue;
    // What waits to be checked should still be in the cache.
    if (candidate == &reads_ && unchecked_.size() * cell >= options_.window_bytes) {
      continue;
    }
    const bool fits = in_flight + cell <= options_.window_bytes &&
                      (other.requests.empty() ||
                       candidate->in_flight_bytes + cell <= options_.window_bytes / 2);
    if (!fits && candidate->in_flight_bytes > 0) continue;
    if (chosen == nullptr || candidate->in_flight_bytes < chosen->in_flight_bytes) {
      chosen = candidate;
    }
  }
  return chosen;
}

/// Launches the next chunk of the lane's front request that lies in this directory.
void SwapWorker::DispatchNext(Lane& lane) {
  StoreRequest* request = lane.requests.front();
  while (lane.cursor < request->size_bytes) {
    const int64_t begin = lane.cursor;
    const StripeMap::Place place = options_.map->At(request->offset + begin);
    const int64_t size_bytes = std::min(place.size_bytes, request->size_bytes - begin);
    lane.cursor += size_bytes;
    if (place.directory != options_.directory) continue;
    Launch(request, request->offset + begin, place, size_bytes);
    break;
  }
  if (lane.cursor < request->size_bytes) return;
  lane.requests.Pop();
  lane.cursor = 0;
  is_cut_[request->index] = true;
  FinishIfDone(request);
}

void SwapWorker::Launch(StoreRequest* request, int64_t offset,
                        const StripeMap::Place& place, int64_t size_bytes) {
  const int index = free_flights_.back();
  Flight& flight = flights_[index];
  flight = {.request = request, .offset = offset};
  flight.chunk = {.op = request->op,
                  .offset = place.file_offset,
                  .memory = request->memory + (offset - request->offset),
                  .size_bytes = size_bytes,
                  .tag = static_cast<uint64_t>(index),
                  .name = request->name};
  if (absl::Status status = Prepare(flight); !status.ok()) {
    request->Fail(offset, std::move(status));
    flight.request = nullptr;
    return;
  }
  free_flights_.pop_back();
  ++chunks_out_[request->index];
  lane(request->op).in_flight_bytes += size_bytes;
  flight.start = Clock::now();
  queue_->Start(flight.chunk);
}

absl::Status SwapWorker::Prepare(Flight& flight) {
  const Chunk& chunk = flight.chunk;
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat(Name(chunk.op), " '", chunk.name, "' at ", chunk.offset, "+",
                     chunk.size_bytes, " in ", file_.path, ": ", why));
  };
  if (chunk.op == IoOp::kWrite) {
    flight.entry = checksums_.BeginWrite(flight.offset, chunk.size_bytes);
    if (flight.entry == nullptr) {
      return refuse(absl::StrCat("more than the ", options_.extent_count_max,
                                 " extents that the store was made for"));
    }
    flight.generation = flight.entry->generation;
    flight.checksum =
        ChunkChecksum(flight.offset, flight.generation,
                      {chunk.memory, static_cast<size_t>(chunk.size_bytes)});
    return absl::OkStatus();
  }
  using State = ChecksumTable::State;
  const ChecksumTable::Entry* entry = checksums_.Find(flight.offset);
  if (entry == nullptr) return refuse("these bytes were never written");
  if (entry->state == State::kBeingWritten) return refuse("they are being written");
  if (entry->state == State::kWriteFailed) return refuse("their last write failed");
  if (entry->size_bytes != chunk.size_bytes) {
    return refuse(absl::StrCat("they were written with ", entry->size_bytes, " bytes"));
  }
  flight.generation = entry->generation;
  flight.checksum = entry->checksum;
  return absl::OkStatus();
}

void SwapWorker::Reap(std::chrono::milliseconds wait) {
  const int count = queue_->Reap(results_, wait);
  bytes_read_.store(queue_->counters().bytes_read, std::memory_order_relaxed);
  bytes_written_.store(queue_->counters().bytes_written, std::memory_order_relaxed);
  for (int i = 0; i < count; ++i) Land(results_[i]);
}

void SwapWorker::Land(const ChunkResult& result) {
  const int index = static_cast<int>(result.tag);
  Flight& flight = flights_[index];
  StoreRequest* request = flight.request;
  if (flight.entry != nullptr) {
    flight.entry->checksum = flight.checksum;
    flight.entry->state = result.status.ok() ? ChecksumTable::State::kWritten
                                             : ChecksumTable::State::kWriteFailed;
  }
  lane(request->op).in_flight_bytes -= flight.chunk.size_bytes;
  lane(request->op).stall_reported = false;
  if (!result.status.ok()) {
    request->Fail(flight.offset, result.status);
  } else if (request->op == IoOp::kRead) {
    return unchecked_.Push(index);
  }
  Finish(index);
}

void SwapWorker::CheckOldest() {
  if (unchecked_.empty()) return;
  const int index = unchecked_.Pop();
  Flight& flight = flights_[index];
  if (Verify(flight)) return Finish(index);
  flight.is_second_read = true;
  flight.start = Clock::now();
  lane(IoOp::kRead).in_flight_bytes += flight.chunk.size_bytes;
  queue_->Start(flight.chunk);
}

void SwapWorker::Finish(int index) {
  StoreRequest* const request = std::exchange(flights_[index].request, nullptr);
  --chunks_out_[request->index];
  free_flights_.push_back(index);
  FinishIfDone(request);
}

bool SwapWorker::Verify(Flight& flight) {
  const Chunk& chunk = flight.chunk;
  const uint32_t got =
      ChunkChecksum(flight.offset, flight.generation,
                    {chunk.memory, static_cast<size_t>(chunk.size_bytes)});
  if (got == flight.checksum) {
    if (flight.is_second_read) reread_count_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  if (!flight.is_second_read) return false;
  flight.request->Fail(
      flight.offset,
      absl::DataLossError(absl::StrCat(
          "read '", chunk.name, "' at ", chunk.offset, "+", chunk.size_bytes, " in ",
          file_.path, ": these are not the bytes that were written (checksum wanted ",
          absl::StrFormat("%08x, got %08x", flight.checksum, got),
          ", twice): the drive, its cable or the memory is failing, or another "
          "program ",
          "wrote to the file")));
  return true;
}

void SwapWorker::FinishIfDone(StoreRequest* request) {
  if (is_cut_[request->index] && chunks_out_[request->index] == 0) {
    options_.on_finished(request);
  }
}

void SwapWorker::ReportStalls() {
  const Clock::time_point now = Clock::now();
  for (const Flight& flight : flights_) {
    if (flight.request == nullptr || now - flight.start < options_.stall_limit)
      continue;
    const Chunk& chunk = flight.chunk;
    Lane& stalled = lane(chunk.op);
    if (std::exchange(stalled.stall_reported, true)) continue;
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now - flight.start).count();
    options_.on_stalled(absl::DeadlineExceededError(absl::StrCat(
        Name(chunk.op), " '", chunk.name, "' at ", chunk.offset, "+", chunk.size_bytes,
        " in ", file_.path, ": no answer from the drive for ", seconds, " seconds")));
  }
}

}  // namespace strata
