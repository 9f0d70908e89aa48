#include "tools/tierbench/disk_bench.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "runtime/base/available_memory.h"
#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/storage/store.h"
#include "tools/tierbench/disk_samples.h"

namespace strata {
namespace {

constexpr double kWarmUpSeconds = 0.2;
constexpr int64_t kInFlightMax = 4096;  // chunks of one drive

absl::Status Refuse(absl::string_view what, absl::string_view mend) {
  return WithMend(absl::InvalidArgumentError(what), mend);
}

absl::Status CheckSizes(const DiskSettings& s) {
  const int64_t page = Store::kAlignment;
  for (const auto& [flag, bytes] : {std::pair("--shard_size", s.shard_bytes),
                                    std::pair("--chunk", s.chunk_bytes)}) {
    if (bytes > 0 && bytes % page == 0) continue;
    return Refuse(absl::StrCat(flag, " is ", bytes, " bytes"),
                  "take a multiple of 4096 bytes (4KiB)");
  }
  if (s.chunk_bytes > ChunkQueue::kSizeMax) {
    return Refuse(absl::StrCat("--chunk is ", s.chunk_bytes, " bytes"),
                  "the kernel moves at most 1GiB at once: take less");
  }
  if (s.window_bytes < s.chunk_bytes) {
    return Refuse(absl::StrCat("--inflight is ", s.window_bytes,
                               " bytes, less than one chunk of ", s.chunk_bytes),
                  "raise --inflight or lower --chunk");
  }
  if (s.window_bytes / s.chunk_bytes > kInFlightMax) {
    return Refuse(absl::StrCat("--inflight ", s.window_bytes, " and --chunk ",
                               s.chunk_bytes, " are ", s.window_bytes / s.chunk_bytes,
                               " chunks at once, more than ", kInFlightMax),
                  "lower --inflight or raise --chunk");
  }
  return absl::OkStatus();
}

absl::Status CheckTotal(const DiskSettings& s) {
  const auto drives = static_cast<int64_t>(s.directories.size());
  // Both directions have a half, and no two chunks in flight are of the same place.
  const int64_t least =
      drives * std::max(2 * s.shard_bytes, 4 * std::max(s.window_bytes, s.chunk_bytes));
  if (s.total_bytes < least) {
    return Refuse(
        absl::StrCat("--total is ", s.total_bytes, " bytes (",
                     FormatSize(s.total_bytes),
                     "), but two shards and four windows in each of ", drives,
                     " directories are ", least, " bytes (", FormatSize(least), ")"),
        "raise --total, or lower --shard_size or --inflight");
  }
  const absl::StatusOr<AvailableMemory> memory = FindAvailableMemory("");
  const int64_t needed = drives * s.window_bytes;
  if (memory.ok() && needed > memory->available_bytes / 2) {
    return Refuse(absl::StrCat("--inflight ", s.window_bytes, " bytes for ", drives,
                               " directories is more than half of the ",
                               memory->available_bytes, " bytes of available memory"),
                  "lower --inflight");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckDiskSettings(const DiskSettings& settings) {
  STRATA_CHECK(!settings.directories.empty());
  STRATA_RETURN_IF_ERROR(CheckSizes(settings));
  return CheckTotal(settings);
}

absl::StatusOr<std::unique_ptr<DiskBench>> DiskBench::Create(DiskSettings settings,
                                                             const Stop& stop) {
  STRATA_RETURN_IF_ERROR(CheckDiskSettings(settings));
  auto bench = std::unique_ptr<DiskBench>(new DiskBench(std::move(settings)));
  const DiskSettings& s = bench->settings_;
  const int64_t drive_bytes =
      AlignUp(CeilDiv(s.total_bytes, static_cast<int64_t>(s.directories.size())),
              Store::kAlignment);
  for (const std::string& directory : s.directories) {
    STRATA_ASSIGN_OR_RETURN(
        std::unique_ptr<DriveFile> drive,
        DriveFile::Create(directory, drive_bytes, s.direct, s.pages,
                          std::max(s.window_bytes, 2 * s.chunk_bytes)));
    drive->set_data_bytes(drive_bytes);
    bench->drives_.push_back(std::move(drive));
  }
  STRATA_RETURN_IF_ERROR(bench->ChooseBackend());
  STRATA_RETURN_IF_ERROR(bench->Fill(stop));
  return bench;
}

absl::Status DiskBench::ChooseBackend() {
  IoQueueOptions options{.depth = 2};
  for (const std::unique_ptr<DriveFile>& drive : drives_) {
    options.files = {{.descriptor = drive->descriptor(), .path = drive->path()}};
    STRATA_ASSIGN_OR_RETURN(const OpenedQueue opened,
                            OpenIoQueue(settings_.backend, options));
    if (drive != drives_.front() && opened.backend != backend_) {
      return WithMend(
          absl::UnavailableError(absl::StrCat(
              drives_.front()->directory(), " and ", drive->directory(),
              " take different I/O backends: ", why_backend_, "; ", opened.why)),
          "name one that works in both with --io_backend");
    }
    backend_ = opened.backend;
    why_backend_ = opened.why;
  }
  return absl::OkStatus();
}

absl::Status DiskBench::Fill(const Stop& stop) {
  for (size_t d = 0; d < drives_.size(); ++d) {
    DriveFile& drive = *drives_[d];
    DiskRunOptions run{.op = DiskOp::kWrite, .backend = backend_};
    run.shard_bytes = settings_.shard_bytes;
    run.chunk_bytes = settings_.chunk_bytes;
    run.window_bytes = settings_.window_bytes;
    run.verifies = settings_.verifies;
    run.bytes = drive.data_bytes();
    run.seconds_max = settings_.fill_seconds_max / static_cast<double>(drives_.size());
    STRATA_ASSIGN_OR_RETURN(const DiskRunResult result,
                            RunDisk(std::span(drives_).subspan(d, 1), run, stop));
    if (result.launched_bytes >= drive.data_bytes()) continue;
    const int64_t least =
        std::max(2 * settings_.shard_bytes,
                 4 * std::max(settings_.window_bytes, settings_.chunk_bytes));
    const int64_t shards =
        std::max(result.launched_bytes, least) / settings_.shard_bytes;
    const int64_t kept = std::max(least, shards * settings_.shard_bytes);
    if (result.launched_bytes < kept) {
      run.seconds_max = 0;
      run.bytes = kept;
      STRATA_RETURN_IF_ERROR(
          RunDisk(std::span(drives_).subspan(d, 1), run, stop).status());
    }
    drive.set_data_bytes(kept);
  }
  return absl::OkStatus();
}

absl::StatusOr<Phase> DiskBench::Measure(DiskOp op, const DiskSettings& settings,
                                         const Stop& stop) {
  if (settings.direct == DirectIo::kOff && op != DiskOp::kWrite) {
    for (const std::unique_ptr<DriveFile>& drive : drives_) drive->DropFromCache();
  }
  DiskRunOptions run{.op = op, .backend = backend_};
  run.shard_bytes = settings.shard_bytes;
  run.chunk_bytes = settings.chunk_bytes;
  run.window_bytes = settings.window_bytes;
  run.registers_memory = settings.registers_memory;
  run.verifies = settings.verifies;
  if (settings.loop_seconds > 0) {
    run.warm_up_seconds = kWarmUpSeconds;
    run.seconds = settings.loops * settings.loop_seconds;
  } else {
    int64_t most = 0;
    for (const auto& drive : drives_) most = std::max(most, drive->data_bytes());
    run.bytes = settings.loops * most;
  }
  const RequestCounts before = CountRequests(drives_);
  STRATA_ASSIGN_OR_RETURN(const DiskRunResult result, RunDisk(drives_, run, stop));
  Phase phase = MakeDiskPhase(op, settings, result);
  SetRequestsPerChunk(before, CountRequests(drives_), result, phase);
  phase.params["io_backend"] = Name(backend_);
  return phase;
}

absl::StatusOr<Phase> DiskBench::MeasureShared(const Stop& stop) {
  for (const std::unique_ptr<DriveFile>& drive : drives_) {
    STRATA_RETURN_IF_ERROR(drive->UseMemory(Pages::kShared));
  }
  DiskSettings settings = settings_;
  settings.pages = Pages::kShared;
  STRATA_ASSIGN_OR_RETURN(Phase phase, Measure(DiskOp::kRead, settings, stop));
  phase.name = "read_shm";
  phase.label = "nvme read into /dev/shm";
  return phase;
}

int64_t DiskBench::data_bytes() const {
  int64_t sum = 0;
  for (const std::unique_ptr<DriveFile>& drive : drives_) sum += drive->data_bytes();
  return sum;
}

double DiskBench::CachedShare() const {
  double most = -1;
  for (const std::unique_ptr<DriveFile>& drive : drives_) {
    most = std::max(most, drive->CachedShare());
  }
  return most;
}

}  // namespace strata
