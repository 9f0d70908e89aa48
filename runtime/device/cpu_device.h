/// The device that is always there: ordinary memory with a byte budget, and streams
/// that are really asynchronous. It runs training without a card, and every test.
///
/// In manual mode no stream has a thread: the test asks which streams could run their
/// oldest work and runs it, in an order of its choice. Whatever order it takes is one
/// that a GPU may take too, so an order that gives a wrong result proves a missing
/// wait.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/device/device.h"

namespace strata {

struct CpuDeviceOptions {
  enum class Mode : uint8_t {
    kThreads,  // each stream has a worker thread
    kManual,   // work happens in RunOne(), and where a caller would block
  };
  int64_t device_bytes = 0;       // the most that MemoryKind::kDevice may hold at once
  int64_t pinned_host_bytes = 0;  // the same for MemoryKind::kPinnedHost
  Mode mode = Mode::kThreads;
};

/// Its streams may wait for each other; a stream that waits for work that failed fails
/// with the same error. Streams and buffers are destroyed before their device;
/// destroying a stream completes its work.
class CpuDevice : public Device {
 public:
  /// Manual mode only: the streams whose oldest pending work waits for nothing any
  /// more, in the order in which they were created.
  virtual std::vector<Stream*> RunnableStreams() = 0;
  /// Manual mode only: does the oldest work of `stream`, one of RunnableStreams(), on
  /// the calling thread.
  virtual void RunOne(Stream& stream) = 0;
};

std::unique_ptr<CpuDevice> CreateCpuDevice(const CpuDeviceOptions& options);

}  // namespace strata
