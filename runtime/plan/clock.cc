#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/plan/executor.h"

namespace strata {
namespace {

using std::chrono::microseconds;

// Short operations end within the first rounds, in which another thread may have the
// core; after that the executor's thread must not take a core from those that compute.
class RealClock final : public Clock {
 public:
  double Seconds() override {
    return std::chrono::duration<double>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  void Idle(int32_t idle_rounds) override {
    constexpr int32_t kYieldRounds = 20;
    constexpr microseconds kLongest(50);
    if (idle_rounds <= kYieldRounds) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(
        std::min(microseconds(idle_rounds - kYieldRounds), kLongest));
  }
};

}  // namespace

Clock& Clock::Real() {
  static RealClock clock;
  return clock;
}

}  // namespace strata
