/// Copies in both directions of the link, for as long as the object lives: what other
/// measurements have to share host memory with while a model trains.
#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <memory>
#include <thread>

#include "runtime/device/device.h"

namespace strata {

class CopyLoad {
 public:
  static absl::StatusOr<std::unique_ptr<CopyLoad>> Start(Device& device);
  ~CopyLoad();
  CopyLoad(const CopyLoad&) = delete;
  CopyLoad& operator=(const CopyLoad&) = delete;

  /// Bytes copied so far, each counted once.
  int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  CopyLoad() = default;
  void Run();

  Buffer host_, device_;
  std::unique_ptr<Stream> up_, down_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int64_t> bytes_ = 0;
  std::thread thread_;  // submits and waits for both
};

}  // namespace strata
