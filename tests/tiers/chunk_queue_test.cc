/// How attempts become whole transfers or errors: the rules, one by one, on every
/// backend.
#include "tiers/chunk_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

#include "tests/support/backends.h"
#include "tests/support/faulty_queue.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tiers/file_descriptor.h"
#include "tiers/io_queue_probe.h"

namespace strata {
namespace {

using Kind = Fault::Kind;
constexpr int64_t kPage = 4096;
constexpr int64_t kFileBytes = 64 * kPage;

class ChunkQueueTest : public testing::TestWithParam<IoBackend> {
 protected:
  ChunkQueueTest() : source_(kFileBytes, 1), target_(kFileBytes) {
    path_ = directory_ / "file";
    file_ = FileDescriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
    STRATA_CHECK(file_.is_open());
    STRATA_CHECK(pwrite(file_.get(), source_.data(), kFileBytes, 0) == kFileBytes);
  }

  void Open(std::vector<Fault> faults) {
    auto inner =
        MakeIoQueue(GetParam(), {.depth = 16, .files = {{file_.get(), path_}}});
    STRATA_CHECK(inner.ok());
    auto faulty = std::make_unique<FaultyQueue>(*std::move(inner), std::move(faults));
    faulty_ = faulty.get();
    queue_ = std::make_unique<ChunkQueue>(std::move(faulty),
                                          std::vector<std::string>{path_});
  }

  absl::Status Wait() {
    ChunkResult result;
    while (queue_->Reap({&result, 1}, std::chrono::hours(1)) == 0) {
    }
    return result.status;
  }
  absl::Status ReadAll() {
    queue_->Start({.op = IoOp::kRead,
                   .memory = target_.data(),
                   .size_bytes = kFileBytes,
                   .name = "wanted"});
    return Wait();
  }
  absl::Status WriteAll() {
    queue_->Start({.op = IoOp::kWrite,
                   .memory = source_.data(),
                   .size_bytes = kFileBytes,
                   .name = "wanted"});
    return Wait();
  }

  static std::vector<Fault> Repeated(IoOp op, int count, Kind kind, int64_t value) {
    std::vector<Fault> faults;
    for (int i = 0; i < count; ++i) {
      faults.push_back({.op = op, .attempt = i, .kind = kind, .value = value});
    }
    return faults;
  }

  TempDirectory directory_;
  std::string path_;
  FileDescriptor file_;
  PageBuffer source_;
  PageBuffer target_;
  std::unique_ptr<ChunkQueue> queue_;
  FaultyQueue* faulty_ = nullptr;
};

TEST_P(ChunkQueueTest, ContinuesShortReadsFromTheLastWholePage) {
  Open({{IoOp::kRead, 0, Kind::kShort, 5 * kPage},
        {IoOp::kRead, 1, Kind::kShort, 3 * kPage + 512},
        {IoOp::kRead, 2, Kind::kShort, kPage}});
  ASSERT_EQ(ReadAll(), absl::OkStatus());
  EXPECT_EQ(source_, target_);
  EXPECT_EQ(faulty_->fault_count(), 3);
  EXPECT_EQ(queue_->counters().short_count, 3);
  // The 512 bytes were moved twice.
  EXPECT_EQ(queue_->counters().bytes_read, kFileBytes + 512);
}

TEST_P(ChunkQueueTest, ContinuesShortWrites) {
  source_.Fill(2);
  Open({{IoOp::kWrite, 0, Kind::kShort, 7 * kPage},
        {IoOp::kWrite, 1, Kind::kShort, 7 * kPage}});
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  ASSERT_EQ(ReadAll(), absl::OkStatus());
  EXPECT_EQ(source_, target_);
  EXPECT_EQ(queue_->counters().bytes_written, kFileBytes);
}

TEST_P(ChunkQueueTest, RepeatsWhatWasInterrupted) {
  for (const int error_number : {EINTR, EAGAIN}) {
    target_.Fill(9);
    Open(Repeated(IoOp::kRead, 20, Kind::kErrno, error_number));
    ASSERT_EQ(ReadAll(), absl::OkStatus());
    EXPECT_EQ(source_, target_);
    EXPECT_EQ(queue_->counters().retry_count, 20);
  }
}

TEST_P(ChunkQueueTest, GivesUpOnEndlessInterruption) {
  Open(Repeated(IoOp::kRead, 1000, Kind::kErrno, EAGAIN));
  const absl::Status status = ReadAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_LT(faulty_->fault_count(), 100);
}

TEST_P(ChunkQueueTest, RepeatsADeviceErrorOnceAndThenNamesEverything) {
  for (const IoOp op : {IoOp::kRead, IoOp::kWrite}) {
    Open({{op, 0, Kind::kErrno, EIO}});
    EXPECT_EQ(op == IoOp::kRead ? ReadAll() : WriteAll(), absl::OkStatus());
    Open(Repeated(op, 2, Kind::kErrno, EIO));
    const absl::Status status = op == IoOp::kRead ? ReadAll() : WriteAll();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    const std::string wanted =
        std::string(Name(op)) + " 'wanted' at 0+262144 in " + path_;
    EXPECT_NE(status.message().find(wanted), std::string::npos) << status;
    EXPECT_NE(status.message().find("EIO"), std::string::npos) << status;
    EXPECT_EQ(faulty_->fault_count(), 2);
  }
}

TEST_P(ChunkQueueTest, DoesNotRepeatAFullDiskOrAReadOnlyOne) {
  for (const int error_number : {ENOSPC, EDQUOT, EFBIG, EROFS, EINVAL, EBADF}) {
    Open(Repeated(IoOp::kWrite, 5, Kind::kErrno, error_number));
    const absl::Status status = WriteAll();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(strerrorname_np(error_number)), std::string::npos)
        << status;
    EXPECT_EQ(faulty_->fault_count(), 1) << status;
  }
}

TEST_P(ChunkQueueTest, AnEarlyEndOfTheFileIsDataLossNotSuccess) {
  ASSERT_EQ(ftruncate(file_.get(), 10 * kPage + 1000), 0);
  Open({});
  const absl::Status status = ReadAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("the file ends"), std::string::npos) << status;
  EXPECT_NE(status.message().find(path_), std::string::npos) << status;
}

TEST_P(ChunkQueueTest, AWriteThatMovesNothingTwiceIsAnError) {
  Open(Repeated(IoOp::kWrite, 1, Kind::kShort, 0));
  EXPECT_EQ(WriteAll(), absl::OkStatus());
  Open(Repeated(IoOp::kWrite, 2, Kind::kShort, 0));
  EXPECT_EQ(WriteAll().code(), absl::StatusCode::kDataLoss);
}

TEST_P(ChunkQueueTest, OneBadChunkDoesNotTouchTheOthers) {
  Open({{IoOp::kRead, 3, Kind::kErrno, EROFS},
        {IoOp::kRead, 5, Kind::kDelay, 4},
        {IoOp::kRead, 6, Kind::kShort, kPage}});
  faulty_->ReorderBy(7);
  for (uint64_t i = 0; i < 8; ++i) {
    const int64_t at = static_cast<int64_t>(i) * 4 * kPage;
    queue_->Start({.offset = at,
                   .memory = target_.data() + at,
                   .size_bytes = 4 * kPage,
                   .tag = i,
                   .name = "part"});
  }
  std::vector<ChunkResult> results(8);
  for (int landed = 0; landed < 8;) {
    const int count = queue_->Reap(results, std::chrono::hours(1));
    for (int i = 0; i < count; ++i) {
      EXPECT_EQ(results[i].status.ok(), results[i].tag != 3) << results[i].status;
      if (results[i].tag == 3) continue;
      const int64_t at = static_cast<int64_t>(results[i].tag) * 4 * kPage;
      EXPECT_EQ(std::memcmp(source_.data() + at, target_.data() + at, 4 * kPage), 0);
    }
    landed += count;
  }
  EXPECT_EQ(queue_->in_flight_count(), 0);
}

INSTANTIATE_TEST_SUITE_P(, ChunkQueueTest, testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata
