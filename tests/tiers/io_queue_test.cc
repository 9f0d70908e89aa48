/// The contract of IoQueue, the same for every backend.
#include "tiers/io_queue.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <thread>

#include "tests/support/backends.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tiers/file_descriptor.h"
#include "tiers/io_queue_probe.h"
#include "tiers/signals.h"

namespace strata {
namespace {

constexpr int64_t kPage = 4096;
constexpr auto kLong = std::chrono::hours(1);  // ctest's timeout ends a hang

class IoQueueTest : public testing::TestWithParam<IoBackend> {
 protected:
  void Open(int64_t file_bytes, int depth, int flags = O_RDWR) {
    path_ = directory_ / "file";
    file_ = FileDescriptor(open(path_.c_str(), flags | O_CREAT | O_DIRECT, 0600));
    STRATA_CHECK(file_.is_open());
    STRATA_CHECK(truncate(path_.c_str(), file_bytes) == 0);
    options_.depth = depth;
    options_.files = {{.descriptor = file_.get(), .path = path_}};
    auto queue = MakeIoQueue(GetParam(), options_);
    STRATA_CHECK(queue.ok());
    queue_ = *std::move(queue);
  }

  IoAttempt Attempt(IoOp op, int64_t offset, std::byte* memory, int64_t size_bytes,
                    uint64_t tag) {
    return {.op = op,
            .offset = offset,
            .memory = memory,
            .size_bytes = size_bytes,
            .tag = tag};
  }

  /// Outcomes by tag, once `count` have come. Fails the test on a tag that comes twice.
  std::map<uint64_t, int64_t> ReapAll(int count) {
    std::map<uint64_t, int64_t> results;
    std::vector<IoOutcome> outcomes(3);  // fewer than are there, at times
    while (static_cast<int>(results.size()) < count) {
      const int reaped = queue_->Reap(outcomes, kLong);
      for (int i = 0; i < reaped; ++i) {
        EXPECT_TRUE(results.emplace(outcomes[i].tag, outcomes[i].result).second);
      }
    }
    return results;
  }

  TempDirectory directory_;
  std::string path_;
  FileDescriptor file_;
  IoQueueOptions options_;
  std::unique_ptr<IoQueue> queue_;
};

TEST_P(IoQueueTest, MovesTheBytesOfAFullQueueAndGivesEachTagOnce) {
  constexpr int kDepth = 48;
  Open(kDepth * 5 * kPage, kDepth);
  PageBuffer source(kDepth * 5 * kPage, 1);
  PageBuffer target(kDepth * 5 * kPage);
  for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
    PageBuffer& memory = op == IoOp::kWrite ? source : target;
    for (int i = 0; i < kDepth; ++i) {
      const int64_t at = i * 5 * kPage;
      queue_->Submit(
          Attempt(op, at, memory.data() + at, (1 + i % 5) * kPage, 1000 + i));
    }
    const auto results = ReapAll(kDepth);
    for (int i = 0; i < kDepth; ++i) {
      EXPECT_EQ(results.at(1000 + i), (1 + i % 5) * kPage) << Name(op) << " " << i;
    }
  }
  for (int i = 0; i < kDepth; ++i) {
    const int64_t at = i * 5 * kPage;
    EXPECT_EQ(std::memcmp(source.data() + at, target.data() + at, (1 + i % 5) * kPage),
              0);
  }
}

TEST_P(IoQueueTest, UsesRegisteredMemoryAndOtherMemorySideBySide) {
  PageBuffer registered(64 * kPage, 1);
  PageBuffer other(64 * kPage);
  options_.memory = {registered.span().subspan(0, 16 * kPage),
                     registered.span().subspan(32 * kPage, 32 * kPage)};
  Open(64 * kPage, 8);
  // The second lies across the end of a registered range.
  queue_->Submit(Attempt(IoOp::kWrite, 0, registered.data(), 8 * kPage, 1));
  queue_->Submit(
      Attempt(IoOp::kWrite, 8 * kPage, registered.data() + 8 * kPage, 32 * kPage, 2));
  queue_->Submit(
      Attempt(IoOp::kWrite, 40 * kPage, registered.data() + 40 * kPage, 24 * kPage, 3));
  for (const auto& [tag, result] : ReapAll(3)) EXPECT_GT(result, 0) << tag;
  queue_->Submit(Attempt(IoOp::kRead, 0, other.data(), 64 * kPage, 4));
  EXPECT_EQ(ReapAll(1).at(4), 64 * kPage);
  EXPECT_EQ(registered, other);
}

TEST_P(IoQueueTest, GivesTheErrnoOfOneAttemptAndLeavesTheOthersAlone) {
  Open(8 * kPage, 8, O_RDONLY);
  PageBuffer memory(4 * kPage);
  queue_->Submit(Attempt(IoOp::kRead, 0, memory.data(), kPage, 1));
  queue_->Submit(Attempt(IoOp::kWrite, 0, memory.data() + kPage, kPage, 2));
  queue_->Submit(Attempt(IoOp::kRead, 0, memory.data() + 2 * kPage, kPage, 3));
  const auto results = ReapAll(3);
  EXPECT_EQ(results.at(1), kPage);
  EXPECT_EQ(results.at(2), -EBADF);
  EXPECT_EQ(results.at(3), kPage);
}

TEST_P(IoQueueTest, SaysHowMuchWasReadBeforeTheEndOfTheFile) {
  Open(2 * kPage, 8);
  PageBuffer memory(4 * kPage);
  queue_->Submit(Attempt(IoOp::kRead, kPage, memory.data(), 3 * kPage, 1));
  EXPECT_EQ(ReapAll(1).at(1), kPage);
  queue_->Submit(Attempt(IoOp::kRead, 2 * kPage, memory.data(), kPage, 2));
  EXPECT_EQ(ReapAll(1).at(2), 0);
}

TEST_P(IoQueueTest, SurvivesTheFileSizeLimitAndNamesIt) {
  BlockAllSignals();  // as the store's threads do: SIGXFSZ would kill
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  Open(0, 8);
  rlimit limit = before;
  limit.rlim_cur = 2 * kPage;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  PageBuffer memory(4 * kPage, 1);
  queue_->Submit(Attempt(IoOp::kWrite, 2 * kPage, memory.data(), kPage, 1));
  const int64_t result = ReapAll(1).at(1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(result, -EFBIG);
}

TEST_P(IoQueueTest, WakeEndsTheReapOfAnotherThread) {
  Open(kPage, 8);
  for (int i = 0; i < 100; ++i) {
    std::thread waker([this] { queue_->Wake(); });
    IoOutcome outcome;
    EXPECT_EQ(queue_->Reap({&outcome, 1}, kLong), 0);
    waker.join();
  }
}

TEST_P(IoQueueTest, WakeBeforeReapIsNotLostWhileAttemptsAreInFlight) {
  Open(64 * kPage, 8);
  PageBuffer memory(64 * kPage);
  queue_->Wake();
  queue_->Wake();
  queue_->Submit(Attempt(IoOp::kRead, 0, memory.data(), 64 * kPage, 1));
  EXPECT_EQ(ReapAll(1).at(1), 64 * kPage);
}

TEST_P(IoQueueTest, ReapWithoutWaitingReturnsAtOnce) {
  Open(kPage, 8);
  IoOutcome outcome;
  EXPECT_EQ(queue_->Reap({&outcome, 1}, std::chrono::milliseconds(0)), 0);
}

TEST_P(IoQueueTest, LeaksNoDescriptor) {
  const auto count = [] {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return std::distance(begin(entries), end(entries));
  };
  Open(kPage, 8);
  queue_ = nullptr;
  const auto before = count();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(MakeIoQueue(GetParam(), options_).ok());
  EXPECT_EQ(count(), before);
}

INSTANTIATE_TEST_SUITE_P(, IoQueueTest, testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

TEST(OpenIoQueue, TakesTheFirstThatWorksAndSaysWhy) {
  TempDirectory directory;
  const auto probes = ProbeIoBackends(directory.path());
  ASSERT_TRUE(probes.ok()) << probes.status();
  ASSERT_EQ(probes->size(), kIoBackends.size());
  EXPECT_TRUE(probes->back().status.ok()) << probes->back().status;  // threads, always
  EXPECT_TRUE(ListTree(directory.path()).empty());

  const std::string path = directory / "file";
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600));
  const auto opened = OpenIoQueue(IoBackend::kAuto, {.files = {{file.get(), path}}});
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (const IoProbe& probe : *probes) {
    if (probe.backend == opened->backend) break;
    // Those before it in the order were refused, and the reason says so.
    EXPECT_FALSE(probe.status.ok());
    EXPECT_NE(opened->why.find(std::string(probe.status.message())), std::string::npos);
  }
}

TEST(OpenIoQueue, AForcedBackendThatDoesNotWorkIsAnErrorThatNamesIt) {
  TempDirectory directory;
  const std::string path = directory / "file";
  // libaio needs O_DIRECT.
  const FileDescriptor file(open(path.c_str(), O_RDWR | O_CREAT, 0600));
  const IoQueueOptions options = {.files = {{file.get(), path}}};
  const absl::Status status = OpenIoQueue(IoBackend::kLibaio, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("io_backend libaio does not work in " + path),
            std::string::npos)
      << status;
  EXPECT_NE(status.message().find("O_DIRECT"), std::string::npos) << status;
}

TEST(OpenIoQueue, FindsThatTheFileCannotBeWritten) {
  TempDirectory directory;
  const std::string path = directory / "file";
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CREAT | O_DIRECT, 0600));
  const absl::Status status =
      OpenIoQueue(IoBackend::kAuto, {.files = {{file.get(), path}}}).status();
  EXPECT_FALSE(status.ok());
  for (const IoBackend backend : kIoBackends) {
    EXPECT_NE(status.message().find(Name(backend)), std::string::npos) << status;
  }
}

TEST(IoBackend, NamesParseBackAndOthersAreRefused) {
  for (const IoBackend backend : kIoBackends) {
    EXPECT_EQ(*ParseIoBackend(Name(backend)), backend);
  }
  EXPECT_EQ(*ParseIoBackend("auto"), IoBackend::kAuto);
  const absl::Status status = ParseIoBackend("posix").status();
  EXPECT_NE(status.message().find("'posix'"), std::string::npos);
  EXPECT_NE(status.message().find("io_uring"), std::string::npos);
}

}  // namespace
}  // namespace strata
