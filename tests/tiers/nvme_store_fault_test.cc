/// What a store makes of a drive that misbehaves.
#include <gtest/gtest.h>

#include <cerrno>
#include <random>

#include "tests/support/backends.h"
#include "tests/support/faulty_queue.h"
#include "tests/support/page_buffer.h"
#include "tests/support/temp_directory.h"
#include "tests/support/wait.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

using Kind = Fault::Kind;

class NvmeStoreFaultTest : public testing::TestWithParam<IoBackend> {
 protected:
  NvmeStoreFaultTest() : source_(kMiB, 1), target_(kMiB) {}

  /// Sixteen chunks of 64 KiB. `seed` orders completions; 0 leaves them alone.
  void Open(std::vector<Fault> faults, uint32_t seed = 0) {
    NvmeStoreOptions options;
    options.directories = {{.path = directory_ / "swap"}};
    options.capacity_bytes = kMiB;
    options.extent_count_max = 64;
    options.chunk_bytes = 64 * kKiB;
    options.window_bytes = 512 * kKiB;
    options.io_backend = GetParam();
    options.decorate_queue = [this, faults, seed](std::unique_ptr<IoQueue> inner) {
      auto faulty = std::make_unique<FaultyQueue>(std::move(inner), faults);
      if (seed != 0) faulty->ReorderBy(seed);
      faulty_ = faulty.get();
      return faulty;
    };
    options.stall_limit = stall_limit_;
    store_ = nullptr;
    auto store = NvmeStore::Create(std::move(options));
    STRATA_CHECK(store.ok());
    store_ = *std::move(store);
  }

  absl::Status WriteAll() {
    return WaitForWrites(*store_, store_->Write(0, source_.data(), kMiB, "all"));
  }
  absl::Status ReadAll() {
    return WaitForReads(*store_, store_->Read(0, target_.data(), kMiB, "all"));
  }

  TempDirectory directory_;
  std::chrono::milliseconds stall_limit_ = std::chrono::minutes(2);
  FaultyQueue* faulty_ = nullptr;  // the store's
  PageBuffer source_;
  PageBuffer target_;
  std::unique_ptr<NvmeStore> store_;
};

TEST_P(NvmeStoreFaultTest, PassingFaultsOfEveryKindChangeNoByte) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<Fault> faults;
    const auto add = [&](IoOp op, int attempt) {
      const int64_t amount = 1 + static_cast<int64_t>(random() % 5);
      switch (random() % 4) {
        case 0:
          return faults.push_back({op, attempt, Kind::kErrno, EINTR});
        case 1:
          return faults.push_back({op, attempt, Kind::kErrno, EAGAIN});
        case 2:
          return faults.push_back({op, attempt, Kind::kShort, 4096 * amount});
        default:
          return faults.push_back({op, attempt, Kind::kDelay, amount});
      }
    };
    // One device error only: the same chunk might meet a second, which is final.
    faults.push_back({IoOp::kRead, 0, Kind::kErrno, EIO});
    faults.push_back({IoOp::kWrite, 0, Kind::kErrno, EIO});
    for (int i = 1; i < 30; i += 2) {
      add(IoOp::kRead, i);
      add(IoOp::kWrite, i);
    }
    Open(faults, seed % 2 == 0 ? seed : 0);
    source_.Fill(seed);
    ASSERT_EQ(WriteAll(), absl::OkStatus()) << "seed " << seed;
    ASSERT_EQ(ReadAll(), absl::OkStatus()) << "seed " << seed;
    EXPECT_EQ(source_, target_) << "seed " << seed;
  }
}

TEST_P(NvmeStoreFaultTest, AByteFlippedOnTheWayInIsReadAgain) {
  Open({{IoOp::kRead, 4, Kind::kFlip, 123}});
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  ASSERT_EQ(ReadAll(), absl::OkStatus());
  EXPECT_EQ(source_, target_);
  EXPECT_EQ(store_->reread_count(), 1);
  EXPECT_EQ(store_->bytes_read(), kMiB + 64 * kKiB);
}

TEST_P(NvmeStoreFaultTest, AByteFlippedOnTheWayOutIsDataLoss) {
  Open({{IoOp::kWrite, 4, Kind::kFlip, 123}});
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  const absl::Status status = ReadAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("read 'all' at 262144+65536"), std::string::npos)
      << status;
  EXPECT_NE(status.message().find("checksum wanted"), std::string::npos) << status;
}

TEST_P(NvmeStoreFaultTest, ALostOverwriteIsDataLossNotOldBytes) {
  Open({{IoOp::kWrite, 16 + 5, Kind::kLostWrite, 0}});
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  source_.Fill(2);
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kDataLoss);
}

TEST_P(NvmeStoreFaultTest, ALostOverwriteWithEqualBytesIsNoLoss) {
  Open({{IoOp::kWrite, 16 + 5, Kind::kLostWrite, 0}});
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  ASSERT_EQ(ReadAll(), absl::OkStatus());
  EXPECT_EQ(source_, target_);
}

TEST_P(NvmeStoreFaultTest, AFailedWriteSaysSoForEverAndItsBytesAreNotReadable) {
  Open({{IoOp::kWrite, 2, Kind::kErrno, ENOSPC}});
  const absl::Status status = WriteAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("write 'all' at 131072+65536"), std::string::npos)
      << status;
  store_->Drain();
  EXPECT_EQ(store_->WritesCompleted().status(), status);
  EXPECT_EQ(ReadAll().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_P(NvmeStoreFaultTest, TheFirstErrorByTicketIsToldWhateverComesFirst) {
  // Ticket 1 fails late, ticket 2 at once.
  Open({{IoOp::kWrite, 0, Kind::kDelay, 100},
        {IoOp::kWrite, 1, Kind::kErrno, EROFS},
        {IoOp::kWrite, 2, Kind::kErrno, ENOSPC}});
  store_->Write(0, source_.data(), 128 * kKiB, "first");
  store_->Write(128 * kKiB, source_.data(), 64 * kKiB, "second");
  store_->Drain();
  EXPECT_NE(store_->WritesCompleted().status().message().find("'first' at 65536"),
            std::string::npos);
}

TEST_P(NvmeStoreFaultTest, DrainReturnsAfterErrorsAndTheOtherLaneWorks) {
  std::vector<Fault> faults;
  for (int i = 0; i < 16; ++i) faults.push_back({IoOp::kRead, i, Kind::kErrno, ENODEV});
  Open(faults);
  ASSERT_EQ(WriteAll(), absl::OkStatus());
  EXPECT_FALSE(ReadAll().ok());
  store_->Drain();
  EXPECT_EQ(WriteAll(), absl::OkStatus());
}

TEST_P(NvmeStoreFaultTest, ADriveThatDoesNotAnswerFailsTheStoreWhileItKeepsTheMemory) {
  stall_limit_ = std::chrono::milliseconds(1);
  Open({{IoOp::kWrite, 0, Kind::kHang, 0}});
  const absl::Status status =
      WaitForWrites(*store_, store_->Write(0, source_.data(), 64 * kKiB, "slow"));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("write 'slow' at 0+65536"), std::string::npos)
      << status;
  faulty_->EndHangs();
  store_->Drain();
  EXPECT_EQ(store_->WritesCompleted().status(), status);  // for ever
  EXPECT_EQ(store_->ReadsCompleted().status(), status);   // for both lanes
}

TEST_P(NvmeStoreFaultTest, MoreExtentsThanPromisedAreRefusedByNumber) {
  Open({});
  Ticket ticket = 0;
  // 64 extents and one for each chunk fit; each page of a megabyte does not.
  for (int i = 0; i < 256; ++i) {
    ticket = store_->Write(i * 4096, source_.data() + i * 4096, 4096, "page");
    if (i % 16 == 0) store_->Drain();
  }
  const absl::Status status = WaitForWrites(*store_, ticket);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("64 extents"), std::string::npos) << status;
}

INSTANTIATE_TEST_SUITE_P(, NvmeStoreFaultTest, testing::ValuesIn(WorkingBackends()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace strata
