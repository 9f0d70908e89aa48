#include <absl/strings/str_cat.h>
#include <liburing.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <thread>

#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/bounded_ring.h"
#include "tiers/io_queue.h"
#include "tiers/wake_event.h"

namespace strata {
namespace {

/// The kernel's limit on one registered piece; also about what a kernel pins at once
/// without stalling others.
constexpr int64_t kPieceBytes = kGiB;
/// Kernel threads for requests that would block. O_DIRECT on a preallocated file needs
/// none.
constexpr unsigned kKernelWorkersMax = 4;
/// io_uring_enter that fails in a row, 1 ms apart, before what it did not take fails.
constexpr int kEnterFailuresMax = 1000;

struct SetupLevel {
  unsigned flags;
  const char* description;
};
/// From the newest kernel (6.1) to the oldest (5.11).
constexpr std::array<SetupLevel, 4> kSetupLevels = {{
    {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SINGLE_ISSUER |
         IORING_SETUP_DEFER_TASKRUN,
     "single issuer, deferred task run"},
    {IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN, "cooperative task run"},
    {IORING_SETUP_SUBMIT_ALL, "submit all"},
    {0, "no setup flags"},
}};

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

absl::Status SetupError(int error_number) {
  std::string hint;
  if (error_number == EPERM) {
    const std::string disabled = FirstLine("/proc/sys/kernel/io_uring_disabled");
    hint = disabled.empty() || disabled == "0"
               ? "; a seccomp filter, as containers have, denies it"
               : absl::StrCat("; sysctl kernel.io_uring_disabled is ", disabled);
  } else if (error_number == ENOSYS) {
    hint = "; the kernel is older than 5.1 or a seccomp filter hides it";
  } else if (error_number == ENOMEM) {
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    hint = absl::StrCat("; RLIMIT_MEMLOCK is ", limit.rlim_cur / 1024, " KiB");
  }
  const absl::Status status = IoError(error_number, "io_uring_queue_init");
  return absl::Status(status.code(), absl::StrCat(status.message(), hint));
}

class UringQueue final : public IoQueue {
 public:
  explicit UringQueue(const IoQueueOptions& options)
      : depth_(options.depth),
        unsubmitted_(options.depth + 1),
        failed_(options.depth) {}

  ~UringQueue() override {
    if (!is_set_up_) return;
    STRATA_CHECK(in_flight_count_ == 0);
    io_uring_queue_exit(&ring_);
  }

  absl::Status SetUp(const IoQueueOptions& options) {
    STRATA_RETURN_IF_ERROR(wake_.Open());
    STRATA_RETURN_IF_ERROR(SetUpRing());
    unsigned workers[2] = {kKernelWorkersMax, kKernelWorkersMax};
    io_uring_register_iowq_max_workers(&ring_, workers);  // 5.15; harmless without
    io_uring_ring_dontfork(&ring_);
    RegisterFiles(options.files);
    // The ring is this thread's alone, so it may find it without the table of files.
    io_uring_register_ring_fd(&ring_);  // 5.18; harmless without
    Register(options.memory);
    ArmWake();
    return absl::OkStatus();
  }

  int depth() const override { return depth_; }

  void Submit(const IoAttempt& attempt) override {
    STRATA_CHECK(in_flight_count_ < depth_);
    ++in_flight_count_;
    if (broken_errno_ != 0) {
      failed_.Push({.tag = attempt.tag, .result = -broken_errno_});
      return;
    }
    io_uring_sqe* sqe = NextSqe(attempt.tag);
    const int file = files_are_registered_ ? attempt.file : descriptors_[attempt.file];
    const unsigned size = static_cast<unsigned>(attempt.size_bytes);
    const int piece = FindPiece(attempt.memory, attempt.size_bytes);
    const bool is_read = attempt.op == IoOp::kRead;
    if (piece >= 0 && is_read) {
      io_uring_prep_read_fixed(sqe, file, attempt.memory, size, attempt.offset, piece);
    } else if (piece >= 0) {
      io_uring_prep_write_fixed(sqe, file, attempt.memory, size, attempt.offset, piece);
    } else if (is_read) {
      io_uring_prep_read(sqe, file, attempt.memory, size, attempt.offset);
    } else {
      io_uring_prep_write(sqe, file, attempt.memory, size, attempt.offset);
    }
    unsigned flags = files_are_registered_ ? IOSQE_FIXED_FILE : 0;
    // Some kernels answer EAGAIN to large requests until they may block.
    if (attempt.retry_count >= 2) flags |= IOSQE_ASYNC;
    io_uring_sqe_set_flags(sqe, flags);
    io_uring_sqe_set_data64(sqe, attempt.tag);
  }

  int Reap(std::span<IoOutcome> outcomes, std::chrono::milliseconds wait) override {
    Enter(failed_.empty() ? wait : std::chrono::milliseconds(0));
    int count = 0;
    const int limit = static_cast<int>(outcomes.size());
    while (count < limit && !failed_.empty()) outcomes[count++] = failed_.Pop();
    io_uring_cqe* cqe = nullptr;
    while (count < limit && io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
      const IoOutcome outcome = {.tag = io_uring_cqe_get_data64(cqe),
                                 .result = cqe->res};
      io_uring_cqe_seen(&ring_, cqe);
      if (outcome.tag == kReservedTag) {
        wake_.Clear();
        ArmWake();
      } else {
        outcomes[count++] = outcome;
      }
    }
    in_flight_count_ -= count;
    return count;
  }

  void RegisterMemory(std::span<const std::span<std::byte>> memory) override {
    STRATA_CHECK(in_flight_count_ == 0);
    if (!pieces_.empty()) io_uring_unregister_buffers(&ring_);
    Register(memory);
  }

  void Wake() override { wake_.Signal(); }

  std::string description() const override {
    return absl::StrCat("io_uring (", setup_description_, "; ", files_description_,
                        "; ", memory_description_, ")");
  }

 private:
  struct Piece {
    std::byte* begin;
    int64_t size_bytes;
  };

  absl::Status SetUpRing() {
    int result = 0;
    int shortages_left = 3;  // memory of rings that were just closed is freed late
    for (size_t level = 0; level < kSetupLevels.size();) {
      io_uring_params params{};
      params.flags =
          kSetupLevels[level].flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
      params.cq_entries = static_cast<unsigned>(4 * (depth_ + 1));
      result = io_uring_queue_init_params(static_cast<unsigned>(depth_ + 1), &ring_,
                                          &params);
      if (result == 0) {
        is_set_up_ = true;
        setup_description_ = kSetupLevels[level].description;
        return CheckFeatures(params.features);
      }
      if (result == -ENOMEM && shortages_left-- > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(17));
      } else if (result == -EINVAL) {
        ++level;
      } else {
        break;
      }
    }
    return SetupError(-result);
  }

  static absl::Status CheckFeatures(unsigned features) {
    constexpr unsigned kNeeded =
        IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
    if ((features & kNeeded) == kNeeded) return absl::OkStatus();
    return absl::UnavailableError("io_uring: the kernel is older than 5.11");
  }

  void RegisterFiles(const std::vector<IoFile>& files) {
    for (const IoFile& file : files) descriptors_.push_back(file.descriptor);
    const int result = io_uring_register_files(
        &ring_, descriptors_.data(), static_cast<unsigned>(descriptors_.size()));
    files_are_registered_ = result == 0;
    files_description_ =
        result == 0 ? "registered files"
                    : std::string(IoError(-result, "files not registered").message());
  }

  void Register(std::span<const std::span<std::byte>> memory) {
    pieces_.clear();
    std::vector<iovec> vectors;
    int64_t sum_bytes = 0;
    for (const std::span<std::byte> range : memory) {
      const int64_t size_bytes = static_cast<int64_t>(range.size());
      for (int64_t at = 0; at < size_bytes; at += kPieceBytes) {
        pieces_.push_back({range.data() + at, std::min(kPieceBytes, size_bytes - at)});
      }
      sum_bytes += size_bytes;
    }
    memory_description_ = "no registered memory";
    if (pieces_.empty()) return;
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    for (const Piece& piece : pieces_) {
      vectors.push_back({piece.begin, static_cast<size_t>(piece.size_bytes)});
    }
    const int result = io_uring_register_buffers(&ring_, vectors.data(),
                                                 static_cast<unsigned>(vectors.size()));
    if (result == 0) {
      memory_description_ = absl::StrCat(sum_bytes, " bytes of registered memory");
      return;
    }
    pieces_.clear();
    rlimit limit{};
    getrlimit(RLIMIT_MEMLOCK, &limit);
    memory_description_ =
        absl::StrCat("memory not registered: ",
                     IoError(-result, absl::StrCat(sum_bytes, " bytes, RLIMIT_MEMLOCK ",
                                                   limit.rlim_cur / 1024, " KiB"))
                         .message());
  }

  /// The registered piece in which the memory lies, or -1.
  int FindPiece(const std::byte* memory, int64_t size_bytes) const {
    const auto after = std::upper_bound(
        pieces_.begin(), pieces_.end(), memory,
        [](const std::byte* at, const Piece& p) { return at < p.begin; });
    if (after == pieces_.begin()) return -1;
    const auto piece = after - 1;
    if (memory + size_bytes > piece->begin + piece->size_bytes) return -1;
    return static_cast<int>(piece - pieces_.begin());
  }

  io_uring_sqe* NextSqe(uint64_t tag) {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    STRATA_CHECK(sqe != nullptr);  // depth_ + 1 entries: the attempts and the wake
    unsubmitted_.Push(tag);
    return sqe;
  }

  /// A poll, not a read: no memory is lent to the kernel when the ring goes.
  void ArmWake() {
    if (broken_errno_ != 0) return;
    io_uring_sqe* sqe = NextSqe(kReservedTag);
    io_uring_prep_poll_add(sqe, wake_.descriptor(), POLLIN);
    io_uring_sqe_set_data64(sqe, kReservedTag);
  }

  /// One system call: submits what is prepared and waits for the first completion.
  void Enter(std::chrono::milliseconds wait) {
    const bool waits = wait.count() > 0 && io_uring_cq_ready(&ring_) == 0;
    __kernel_timespec timeout{.tv_sec = wait.count() / 1000,
                              .tv_nsec = wait.count() % 1000 * 1'000'000};
    io_uring_cqe* cqe = nullptr;
    int result = 0;
    if (broken_errno_ != 0) {
      if (waits) io_uring_wait_cqe_timeout(&ring_, &cqe, &timeout);  // submits nothing
      return;
    }
    if (waits) {
      result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
    } else {
      result = io_uring_submit_and_get_events(&ring_);
    }
    const int left = static_cast<int>(io_uring_sq_ready(&ring_));
    if (unsubmitted_.size() > left || result >= 0) enter_failure_count_ = 0;
    while (unsubmitted_.size() > left) unsubmitted_.Pop();
    if (result >= 0 || result == -ETIME || result == -EINTR) return;
    const bool may_pass = result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    if (left > 0 && (!may_pass || ++enter_failure_count_ > kEnterFailuresMax)) {
      return Break(-result);
    }
    if (io_uring_cq_ready(&ring_) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The kernel takes nothing more: what it never saw has failed.
  void Break(int error_number) {
    broken_errno_ = error_number;
    while (!unsubmitted_.empty()) {
      const uint64_t tag = unsubmitted_.Pop();
      if (tag != kReservedTag) failed_.Push({.tag = tag, .result = -error_number});
    }
  }

  const int depth_;
  WakeEvent wake_;
  io_uring ring_{};
  bool is_set_up_ = false;
  std::vector<int> descriptors_;
  bool files_are_registered_ = false;
  std::vector<Piece> pieces_;  // by address
  std::string setup_description_;
  std::string files_description_;
  std::string memory_description_;
  BoundedRing<uint64_t> unsubmitted_;  // tags, in order
  BoundedRing<IoOutcome> failed_;      // of what the kernel never took
  int in_flight_count_ = 0;
  int enter_failure_count_ = 0;
  int broken_errno_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoQueue>> MakeUringQueue(const IoQueueOptions& options) {
  STRATA_CHECK(options.depth > 0);
  auto queue = std::make_unique<UringQueue>(options);
  STRATA_RETURN_IF_ERROR(queue->SetUp(options));
  return queue;
}

}  // namespace strata
