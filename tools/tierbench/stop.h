/// Ctrl-C: measuring stops at the next completion, everything that was made is removed
/// on the way out.
#pragma once

#include <absl/status/status.h>

#include <atomic>

namespace strata {

class Stop {
 public:
  void Ask() { asked_.store(true, std::memory_order_relaxed); }
  bool asked() const { return asked_.load(std::memory_order_relaxed); }
  /// Cancelled once it was asked for.
  absl::Status status() const {
    return asked() ? absl::CancelledError("interrupted") : absl::OkStatus();
  }

 private:
  std::atomic<bool> asked_ = false;
};

}  // namespace strata
