#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <libaio.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <thread>

#include "runtime/base/status.h"
#include "tiers/bounded_ring.h"
#include "tiers/io_queue.h"
#include "tiers/wake_event.h"

namespace strata {
namespace {

/// io_submit that says EAGAIN with nothing in flight, 1 ms apart, before it is
/// believed.
constexpr int kSubmitFailuresMax = 1000;

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

class AioQueue final : public IoQueue {
 public:
  explicit AioQueue(const IoQueueOptions& options)
      : depth_(options.depth),
        controls_(static_cast<size_t>(options.depth)),
        events_(static_cast<size_t>(options.depth)),
        failed_(options.depth) {
    for (const IoFile& file : options.files) descriptors_.push_back(file.descriptor);
    for (iocb& control : controls_) free_controls_.push_back(&control);
    prepared_.reserve(controls_.size());
  }

  ~AioQueue() override {
    STRATA_CHECK(in_flight_count_ == 0);
    if (context_ != nullptr) io_destroy(context_);
  }

  absl::Status SetUp() {
    STRATA_RETURN_IF_ERROR(wake_.Open());
    for (const int descriptor : descriptors_) {
      if ((fcntl(descriptor, F_GETFL) & O_DIRECT) == 0) {
        return absl::FailedPreconditionError(
            "libaio: the file is not open with O_DIRECT, and without it io_submit "
            "blocks");
      }
    }
    const int result = io_setup(depth_, &context_);
    if (result == 0) return absl::OkStatus();
    context_ = nullptr;
    std::string hint;
    if (result == -EAGAIN) {
      hint = absl::StrCat("; /proc/sys/fs/aio-nr is ", FirstLine("/proc/sys/fs/aio-nr"),
                          " of aio-max-nr ", FirstLine("/proc/sys/fs/aio-max-nr"));
    }
    const absl::Status status = IoError(-result, "io_setup");
    return absl::Status(status.code(), absl::StrCat(status.message(), hint));
  }

  int depth() const override { return depth_; }

  void Submit(const IoAttempt& attempt) override {
    STRATA_CHECK(in_flight_count_ < depth_);
    ++in_flight_count_;
    iocb* control = free_controls_.back();
    free_controls_.pop_back();
    const int descriptor = descriptors_[attempt.file];
    const size_t size = static_cast<size_t>(attempt.size_bytes);
    if (attempt.op == IoOp::kRead) {
      io_prep_pread(control, descriptor, attempt.memory, size, attempt.offset);
    } else {
      io_prep_pwrite(control, descriptor, attempt.memory, size, attempt.offset);
    }
    io_set_eventfd(control, wake_.descriptor());
    control->data = reinterpret_cast<void*>(attempt.tag);
    prepared_.push_back(control);
  }

  int Reap(std::span<IoOutcome> outcomes, std::chrono::milliseconds wait) override {
    SubmitPrepared();
    int count = Collect(outcomes);
    if (count > 0 || wait.count() == 0) return count;
    // Completions and Wake() both raise the event. What was not submitted is tried
    // again at the latest when something completes, or at once if nothing can.
    const bool must_retry = !prepared_.empty() && in_kernel_count_ == 0;
    pollfd event = {.fd = wake_.descriptor(), .events = POLLIN, .revents = 0};
    const int timeout = static_cast<int>(std::min<int64_t>(wait.count(), INT32_MAX));
    if (poll(&event, 1, must_retry ? 1 : timeout) > 0) wake_.Clear();
    return Collect(outcomes);
  }

  void Wake() override { wake_.Signal(); }
  std::string description() const override { return "libaio"; }

 private:
  void SubmitPrepared() {
    size_t done = 0;
    while (done < prepared_.size()) {
      const int64_t left = static_cast<int64_t>(prepared_.size() - done);
      const int result = io_submit(context_, left, prepared_.data() + done);
      if (result > 0) {
        done += static_cast<size_t>(result);
        in_kernel_count_ += result;
        submit_failure_count_ = 0;
        continue;
      }
      if (result == -EINTR) continue;
      if (result == 0 || result == -EAGAIN) {
        if (in_kernel_count_ > 0 || ++submit_failure_count_ <= kSubmitFailuresMax)
          break;
      }
      // An error is always the first one's; the others may be fine.
      Fail(prepared_[done++], result == 0 ? -EAGAIN : result);
    }
    prepared_.erase(prepared_.begin(), prepared_.begin() + static_cast<int64_t>(done));
  }

  void Fail(iocb* control, int result) {
    failed_.Push({.tag = reinterpret_cast<uint64_t>(control->data), .result = result});
    free_controls_.push_back(control);
  }

  int Collect(std::span<IoOutcome> outcomes) {
    int count = 0;
    const int limit = static_cast<int>(std::min(outcomes.size(), events_.size()));
    while (count < limit && !failed_.empty()) outcomes[count++] = failed_.Pop();
    timespec now{};
    int event_count = 0;
    if (count < limit && in_kernel_count_ > 0) {
      do {
        event_count = io_getevents(context_, 0, limit - count, events_.data(), &now);
      } while (event_count == -EINTR);
      STRATA_CHECK(event_count >= 0);  // the arguments are right, so no other error
    }
    for (int i = 0; i < event_count; ++i) {
      // The kernel counts bytes in `res` and may put a second error in `res2`.
      const int64_t second = static_cast<int64_t>(events_[i].res2);
      const int64_t first = static_cast<int64_t>(events_[i].res);
      outcomes[count++] = {.tag = reinterpret_cast<uint64_t>(events_[i].data),
                           .result = second < 0 ? second : first};
      free_controls_.push_back(events_[i].obj);
    }
    in_kernel_count_ -= event_count;
    in_flight_count_ -= count;
    return count;
  }

  const int depth_;
  WakeEvent wake_;
  io_context_t context_ = nullptr;
  std::vector<int> descriptors_;
  std::vector<iocb> controls_;
  std::vector<iocb*> free_controls_;
  std::vector<iocb*> prepared_;  // not yet taken by the kernel, in order
  std::vector<io_event> events_;
  BoundedRing<IoOutcome> failed_;  // of what the kernel did not take
  int in_flight_count_ = 0;
  int in_kernel_count_ = 0;
  int submit_failure_count_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoQueue>> MakeAioQueue(const IoQueueOptions& options) {
  STRATA_CHECK(options.depth > 0);
  auto queue = std::make_unique<AioQueue>(options);
  STRATA_RETURN_IF_ERROR(queue->SetUp());
  return queue;
}

}  // namespace strata
