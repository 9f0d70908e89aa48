#include "tiers/io_queue_probe.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <utility>

#include "runtime/base/status.h"
#include "tiers/chunk_queue.h"
#include "tiers/swap_directory.h"
#include "tiers/swap_file.h"

namespace strata {
namespace {

constexpr int64_t kPageBytes = ChunkQueue::kAlignment;
/// A drive may be busy; a page that takes this long is lost.
constexpr auto kAnswerWait = std::chrono::seconds(10);

struct alignas(kPageBytes) Page {
  std::byte bytes[kPageBytes];
};

struct RoundTrip {
  absl::Status status;
  bool is_pending = false;  // the kernel still has the page
};

RoundTrip MoveOnePage(ChunkQueue& queue, IoOp op, Page& page) {
  using Clock = std::chrono::steady_clock;
  queue.Start(
      {.op = op, .memory = page.bytes, .size_bytes = kPageBytes, .name = "probe"});
  ChunkResult result;
  for (const auto deadline = Clock::now() + kAnswerWait; Clock::now() < deadline;) {
    if (queue.Reap({&result, 1}, std::chrono::milliseconds(100)) == 1) {
      return {.status = std::move(result.status)};
    }
  }
  return {.status = absl::DeadlineExceededError("no answer for 10 seconds"),
          .is_pending = true};
}

RoundTrip WriteAndReadBack(ChunkQueue& queue, Page& written, Page& read) {
  for (int64_t i = 0; i < kPageBytes; ++i) {
    written.bytes[i] = static_cast<std::byte>((i * 31 + i / 256) % 251);
  }
  std::memset(read.bytes, 0, sizeof(read.bytes));
  RoundTrip trip = MoveOnePage(queue, IoOp::kWrite, written);
  if (!trip.status.ok()) return trip;
  trip = MoveOnePage(queue, IoOp::kRead, read);
  if (trip.status.ok() &&
      std::memcmp(written.bytes, read.bytes, sizeof(read.bytes)) != 0) {
    trip.status = absl::DataLossError("a page was read back with other bytes");
  }
  return trip;
}

/// OK with the queue, proven, in `queue`.
absl::Status TryBackend(IoBackend backend, const IoQueueOptions& options,
                        std::unique_ptr<IoQueue>* queue) {
  STRATA_ASSIGN_OR_RETURN(std::unique_ptr<IoQueue> made, MakeIoQueue(backend, options));
  auto chunks = std::make_unique<ChunkQueue>(
      std::move(made), std::vector<std::string>{options.files[0].path});
  auto pages = std::make_unique<Page[]>(2);
  const RoundTrip trip = WriteAndReadBack(*chunks, pages[0], pages[1]);
  if (trip.is_pending) {
    // The kernel may still write there: neither the ring nor the page can be freed.
    (void)chunks.release();
    (void)pages.release();
  } else {
    *queue = chunks->TakeQueue();
  }
  return trip.status;
}

}  // namespace

const char* Name(IoBackend backend) {
  switch (backend) {
    case IoBackend::kAuto:
      return "auto";
    case IoBackend::kIoUring:
      return "io_uring";
    case IoBackend::kLibaio:
      return "libaio";
    case IoBackend::kThreads:
      return "threads";
  }
  return "";
}

absl::StatusOr<IoBackend> ParseIoBackend(absl::string_view text) {
  if (text == Name(IoBackend::kAuto)) return IoBackend::kAuto;
  for (const IoBackend backend : kIoBackends) {
    if (text == Name(backend)) return backend;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "io_backend '", text, "' is none of auto, io_uring, libaio, threads"));
}

absl::StatusOr<std::unique_ptr<IoQueue>> MakeIoQueue(IoBackend backend,
                                                     const IoQueueOptions& options) {
  STRATA_CHECK(backend != IoBackend::kAuto);
  if (backend == IoBackend::kIoUring) return MakeUringQueue(options);
  if (backend == IoBackend::kLibaio) return MakeAioQueue(options);
  return MakeThreadQueue(options);
}

absl::StatusOr<OpenedQueue> OpenIoQueue(IoBackend wanted,
                                        const IoQueueOptions& options) {
  OpenedQueue opened;
  if (wanted != IoBackend::kAuto) {
    opened.backend = wanted;
    opened.why = absl::StrCat(Name(wanted), ", as asked");
    const absl::Status status = TryBackend(wanted, options, &opened.queue);
    if (status.ok()) return opened;
    return Annotate(status, absl::StrCat("io_backend ", Name(wanted),
                                         " does not work in ", options.files[0].path));
  }
  std::string refusals;
  absl::Status status;
  for (const IoBackend backend : kIoBackends) {
    status = TryBackend(backend, options, &opened.queue);
    if (status.ok()) {
      opened.backend = backend;
      opened.why = absl::StrCat(Name(backend),
                                refusals.empty() ? ", the first choice" : ", because ",
                                refusals);
      return opened;
    }
    absl::StrAppend(&refusals, refusals.empty() ? "" : "; ", Name(backend),
                    " does not work: ", status.message());
  }
  return absl::Status(
      status.code(),
      absl::StrCat("no I/O backend works in ", options.files[0].path, ": ", refusals));
}

absl::StatusOr<std::vector<IoProbe>> ProbeIoBackends(const std::string& nvme_path) {
  STRATA_ASSIGN_OR_RETURN(const std::unique_ptr<SwapDirectory> directory,
                          SwapDirectory::Create(nvme_path));
  STRATA_ASSIGN_OR_RETURN(const SwapFile file,
                          CreateSwapFile(directory->path(), kPageBytes));
  IoQueueOptions options;
  options.files = {{.descriptor = file.descriptor.get(), .path = file.path}};
  std::vector<IoProbe> probes;
  for (const IoBackend backend : kIoBackends) {
    std::unique_ptr<IoQueue> queue;
    IoProbe probe{.backend = backend, .is_direct = file.is_direct};
    probe.status = TryBackend(backend, options, &queue);
    if (probe.status.ok()) probe.description = queue->description();
    probes.push_back(std::move(probe));
  }
  return probes;
}

}  // namespace strata
