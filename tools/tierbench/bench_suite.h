/// Runs the measurements that a command asks for, in an order in which none disturbs
/// the next, and gathers what they found.
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <memory>

#include "runtime/device/device.h"
#include "tools/tierbench/bench_command.h"
#include "tools/tierbench/bench_report.h"
#include "tools/tierbench/profile_maker.h"
#include "tools/tierbench/stop.h"
#include "tools/tierbench/timing.h"

namespace strata {

class BenchSuite {
 public:
  /// `show` is called with each phase once it is measured.
  BenchSuite(const BenchCommand& command, const Stop& stop,
             std::function<void(const Phase&)> show);

  /// Opens the device and looks at the machine; nothing is measured or made yet.
  absl::Status Prepare();
  absl::Status Run();

  /// What has more to say than a row of the table.
  const std::string& text() const { return text_; }
  const BenchReport& report() const { return report_; }
  const ProfileFacts& facts() const { return facts_; }

 private:
  absl::Status RunDisk();
  absl::Status RunComparison();
  absl::Status RunStore();
  absl::Status RunHost();
  absl::Status RunLinks();
  absl::Status RunCompute();
  void Add(Phase phase);
  bool Wants(const char* op) const;
  bool WantsPath(const char* path) const;

  const BenchCommand& command_;
  const Stop& stop_;
  const std::function<void(const Phase&)> show_;
  std::unique_ptr<Device> device_;
  int threads_ = 1;
  TimeBudget budget_ = {.loops = 5, .loop_seconds = 0.15};  // of what is no drive
  BenchReport report_;
  std::string text_;
  ProfileFacts facts_;
};

}  // namespace strata
