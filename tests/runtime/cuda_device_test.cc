/// CudaDevice against a real card. Order is proved with a gate: a host function that a
/// stream executes and that waits until the test opens it.

#include "runtime/device/cuda_device.h"

#include <absl/strings/str_cat.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "runtime/base/types.h"
#include "runtime/device/cuda_host_memory.h"
#include "tests/support/device_conformance.h"

namespace strata {
namespace {

/// Work that stays unfinished until Open(), which also the destructor calls, so that a
/// failed assertion does not leave a stream hanging.
class Gate {
 public:
  ~Gate() { Open(); }
  void Open() {
    open_->test_and_set();
    open_->notify_all();
  }
  Task task() { return {.run = &Gate::Launch, .context = this}; }

 private:
  using Flag = std::shared_ptr<std::atomic_flag>;  // shared with the stream's callback

  static void WaitUntilOpen(void* flag) {
    const std::unique_ptr<Flag> open(static_cast<Flag*>(flag));
    (*open)->wait(false);
  }
  static absl::Status Launch(void* gate, uint32_t, Stream& stream) {
    const auto native = static_cast<cudaStream_t>(stream.native_handle());
    Flag* const flag = new Flag(static_cast<Gate*>(gate)->open_);
    return cudaLaunchHostFunc(native, &Gate::WaitUntilOpen, flag) == cudaSuccess
               ? absl::OkStatus()
               : absl::InternalError("cudaLaunchHostFunc");
  }

  const Flag open_ = std::make_shared<std::atomic_flag>();
};

class CudaDeviceTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto device = CreateCudaDevice(0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = device->release();
  }
  static void TearDownTestSuite() { delete device_; }

  static Buffer Allocate(MemoryKind kind, int64_t size_bytes) {
    auto buffer = device_->Allocate(kind, size_bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return *std::move(buffer);
  }
  static std::unique_ptr<Stream> NewStream(int32_t depth) {
    auto stream = device_->CreateStream("test", depth);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return *std::move(stream);
  }

  static inline Device* device_ = nullptr;
};

TEST_F(CudaDeviceTest, SaysWhatItIs) {
  EXPECT_EQ(device_->kind(), DeviceKind::kCuda);
  EXPECT_EQ(device_->name().substr(0, 7), "cuda:0 ");
  EXPECT_GT(*device_->FreeBytes(), 0);
}

TEST_F(CudaDeviceTest, RefusesAnOrdinalThatDoesNotExist) {
  for (const int ordinal : {-1, 1000}) {
    const auto device = CreateCudaDevice(ordinal);
    EXPECT_EQ(device.status().code(), absl::StatusCode::kNotFound);
  }
}

TEST_F(CudaDeviceTest, BuffersDoNotCountAsOverhead) {
  const int64_t before = device_->overhead_bytes();
  EXPECT_GT(before, 0);
  const Buffer buffer = Allocate(MemoryKind::kDevice, kGiB + 1);
  EXPECT_NEAR(device_->overhead_bytes(), before, 8 * kMiB);
}

TEST_F(CudaDeviceTest, MemoryThatWasUsedComesBackZeroed) {
  const std::unique_ptr<Stream> stream = NewStream(4);
  for (const int64_t size_bytes : {int64_t{1}, 4097 * kKiB + 3}) {
    for (int round = 0; round < 2; ++round) {
      const Buffer device = Allocate(MemoryKind::kDevice, size_bytes);
      const Buffer host = Allocate(MemoryKind::kPinnedHost, size_bytes);
      for (std::byte byte : host.bytes()) ASSERT_EQ(byte, std::byte{0});
      std::memset(host.data(), 0x5a, size_bytes);
      stream->Copy(host.data(), device.data(), size_bytes);
      ASSERT_TRUE(stream->Synchronize().ok());
      for (std::byte byte : host.bytes()) ASSERT_EQ(byte, std::byte{0});
      std::memset(host.data(), 0x5a, size_bytes);
      stream->Copy(device.data(), host.data(), size_bytes);
      ASSERT_TRUE(stream->Synchronize().ok());
    }
  }
}

TEST_F(CudaDeviceTest, CopiesBothWaysAndAcrossPiecesOfPinnedMemory) {
  const int64_t size_bytes = CudaHostMemory::kPieceBytes + 64 * kMiB;
  const Buffer host = Allocate(MemoryKind::kPinnedHost, size_bytes);
  const Buffer device = Allocate(MemoryKind::kDevice, 8 * kMiB);
  const std::unique_ptr<Stream> stream = NewStream(4);
  // 4 MiB on each side of the border, off any alignment.
  std::byte* const source = host.data() + CudaHostMemory::kPieceBytes - 4 * kMiB + 1;
  std::byte* const target = host.data() + 3;
  const int64_t count = 7 * kMiB + 5;
  for (int64_t i = 0; i < count; ++i) source[i] = static_cast<std::byte>(i * 31 >> 3);
  stream->Copy(device.data(), source, count);
  stream->Copy(target, device.data(), count);
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(std::memcmp(source, target, count), 0);
  EXPECT_EQ(host.data()[2], std::byte{0});
  EXPECT_EQ(target[count], std::byte{0});
}

TEST_F(CudaDeviceTest, CompletedGrowsInOrderAndOnlyWhenWorkIsDone) {
  const std::unique_ptr<Stream> stream = NewStream(8);
  EXPECT_EQ(*stream->Completed(), 0u);
  const Buffer buffer = Allocate(MemoryKind::kDevice, 1024);
  Gate gate;
  const Ticket first = stream->Copy(buffer.data(), buffer.data() + 512, 512);
  const Ticket second = stream->Run(gate.task());
  const Ticket third = stream->Copy(buffer.data(), buffer.data() + 512, 512);
  EXPECT_EQ(first, 1u);
  EXPECT_EQ(second, 2u);
  EXPECT_EQ(third, 3u);
  Ticket last = 0;
  for (int i = 0; i < 1000; ++i) {
    const Ticket completed = *stream->Completed();
    EXPECT_GE(completed, last);
    EXPECT_LT(completed, second);
    last = completed;
  }
  gate.Open();
  ASSERT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(*stream->Completed(), third);
}

TEST_F(CudaDeviceTest, AWaitHoldsBackTheWaitingStreamOnly) {
  const Buffer device = Allocate(MemoryKind::kDevice, 4096);
  const Buffer host = Allocate(MemoryKind::kPinnedHost, 3 * 4096);
  std::byte* const read = host.data() + 2 * 4096;
  std::memset(host.data(), 7, 4096);
  const std::unique_ptr<Stream> writer = NewStream(4);
  const std::unique_ptr<Stream> reader = NewStream(4);
  const std::unique_ptr<Stream> other = NewStream(4);
  Gate gate;
  writer->Run(gate.task());
  const Ticket written = writer->Copy(device.data(), host.data(), 4096);
  reader->Wait(*writer, written);
  const Ticket done = reader->Copy(read, device.data(), 4096);
  other->Copy(host.data() + 4096, host.data(), 4096);
  ASSERT_TRUE(other->Synchronize().ok());  // would never return if it waited, too
  EXPECT_LT(*reader->Completed(), done);
  EXPECT_EQ(read[0], std::byte{0});
  gate.Open();
  ASSERT_TRUE(reader->Synchronize().ok());
  EXPECT_EQ(read[0], std::byte{7});
  EXPECT_EQ(read[4095], std::byte{7});
}

TEST_F(CudaDeviceTest, AWaitForATicketThatLeftTheRingIsFree) {
  const Buffer buffer = Allocate(MemoryKind::kDevice, 1024);
  const std::unique_ptr<Stream> writer = NewStream(2);
  const std::unique_ptr<Stream> reader = NewStream(2);
  for (int i = 0; i < 5; ++i) writer->Copy(buffer.data(), buffer.data() + 512, 512);
  Gate gate;
  writer->Run(gate.task());  // the ring holds tickets 5 and 6 now
  reader->Wait(*writer, 1);
  reader->Wait(*writer, 0);
  reader->Copy(buffer.data(), buffer.data() + 512, 512);
  EXPECT_TRUE(reader->Synchronize().ok());
}

TEST_F(CudaDeviceTest, SubmittingBlocksAtTheDepthAndThenGoesOn) {
  const Buffer buffer = Allocate(MemoryKind::kDevice, 1024);
  const std::unique_ptr<Stream> stream = NewStream(2);
  Gate gate;
  std::atomic<bool> opened = false;
  stream->Run(gate.task());
  stream->Copy(buffer.data(), buffer.data() + 512, 512);
  std::thread opener([&] {
    opened = true;
    gate.Open();
  });
  stream->Copy(buffer.data(), buffer.data() + 512, 512);
  EXPECT_TRUE(opened) << "the third piece of work was taken while two were pending";
  opener.join();
  EXPECT_TRUE(stream->Synchronize().ok());
  EXPECT_EQ(*stream->Completed(), 3u);
}

absl::Status FailAlways(void*, uint32_t index, Stream&) {
  return absl::DataLossError(absl::StrCat("task ", index));
}
absl::Status CountCalls(void* calls, uint32_t, Stream&) {
  ++*static_cast<int*>(calls);
  return absl::OkStatus();
}

TEST_F(CudaDeviceTest, AStreamThatWaitsForAFailedOneFailsToo) {
  const std::unique_ptr<Stream> failing = NewStream(4);
  const std::unique_ptr<Stream> waiting = NewStream(4);
  int calls = 0;
  const Ticket failed = failing->Run({.run = &FailAlways, .index = 1});
  waiting->Wait(*failing, failed);
  waiting->Run({.run = &CountCalls, .context = &calls});
  EXPECT_EQ(waiting->Completed().status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(calls, 0);
}

TEST_F(CudaDeviceTest, AWrongCopyIsAnErrorAndNotACrash) {
  const std::unique_ptr<Stream> stream = NewStream(4);
  const Buffer buffer = Allocate(MemoryKind::kDevice, 1 * kMiB);
  stream->Copy(buffer.data(), nullptr, 16);
  EXPECT_FALSE(stream->Synchronize().ok());
  const std::unique_ptr<Stream> fresh = NewStream(4);
  fresh->Copy(buffer.data(), buffer.data() + 512, 512);
  EXPECT_TRUE(fresh->Synchronize().ok()) << "the error leaked into another stream";
}

std::unique_ptr<Device> MakeDevice() {
  auto device = CreateCudaDevice(0);
  EXPECT_TRUE(device.ok()) << device.status();
  return device.ok() ? *std::move(device) : nullptr;
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceConformance, testing::Values(&MakeDevice));

}  // namespace
}  // namespace strata
