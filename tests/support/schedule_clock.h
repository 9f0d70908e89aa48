/// A virtual clock for executors on manual devices: whenever the executor has nothing
/// to do, a random piece of what is pending anywhere happens, and a second passes.
#pragma once

#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "runtime/device/cpu_device.h"
#include "runtime/plan/executor.h"
#include "tests/support/memory_store.h"

namespace strata {

class ScheduleClock final : public Clock {
 public:
  /// `devices` are in manual mode, as is `store`, which may be null.
  ScheduleClock(uint32_t seed, std::vector<CpuDevice*> devices, MemoryStore* store)
      : random_(seed), devices_(std::move(devices)), store_(store) {}

  double Seconds() override { return seconds_; }
  void Idle(int32_t) override {
    STRATA_CHECK(RunOne());  // else the executor waits for nothing: a deadlock
    seconds_ += 1;
  }

  /// Lets a random pending piece of work happen; false if there is none.
  bool RunOne() {
    std::vector<std::pair<CpuDevice*, Stream*>> streams;
    for (CpuDevice* device : devices_) {
      for (Stream* stream : device->RunnableStreams()) {
        streams.emplace_back(device, stream);
      }
    }
    using Kind = MemoryStore::LaneKind;
    const int stream_count = static_cast<int>(streams.size());
    const int reads = store_ == nullptr ? 0 : store_->pending_count(Kind::kRead);
    const int writes = store_ == nullptr ? 0 : store_->pending_count(Kind::kWrite);
    if (stream_count + reads + writes == 0) return false;
    // Uneven speeds reach more orders than even ones: one lane runs for a while,
    // another is starved.
    if (random_() % 4 == 0) favoured_ = random_();
    int choice = static_cast<int>(favoured_ %
                                  static_cast<uint32_t>(stream_count + reads + writes));
    if (choice < stream_count) {
      streams[static_cast<size_t>(choice)].first->RunOne(
          *streams[static_cast<size_t>(choice)].second);
    } else if (choice -= stream_count; choice < reads) {
      store_->Run(Kind::kRead, choice);
    } else {
      store_->Run(Kind::kWrite, choice - reads);
    }
    return true;
  }

 private:
  std::mt19937 random_;
  uint32_t favoured_ = 0;
  std::vector<CpuDevice*> devices_;  // not owned
  MemoryStore* store_;               // not owned
  double seconds_ = 0;
};

}  // namespace strata
