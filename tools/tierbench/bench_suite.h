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
  /// `show` is called with each row of a table once it is measured.
  BenchSuite(BenchCommand command, const Stop& stop,
             std::function<void(const std::string&)> show);

  /// Opens the device and looks at the machine; nothing is measured or made yet.
  absl::Status Prepare();
  absl::Status Run();

  /// What has more to say than a row of the table.
  const std::string& text() const { return text_; }
  /// Whether measuring has begun: an error before is a refusal.
  bool has_begun() const { return has_begun_; }
  const BenchReport& report() const { return report_; }
  const ProfileFacts& facts() const { return facts_; }

 private:
  absl::Status RunDisk();
  absl::Status RunComparison();
  absl::Status RunSweep();
  absl::Status RunSustained();
  absl::Status RunNvmeDevice();
  absl::Status RunStore();
  absl::Status RunHost();
  absl::Status RunUpdates();
  absl::Status RunLinks();
  absl::Status RunCompute();
  void Add(Phase phase);
  bool Wants(const char* op) const;
  bool WantsPath(const char* path) const;

  BenchCommand command_;
  const Stop& stop_;
  const std::function<void(const std::string&)> show_;
  std::unique_ptr<Device> device_;
  int threads_ = 1;
  TimeBudget budget_ = {.loops = 5, .loop_seconds = 0.15};  // of what is no drive
  BenchReport report_;
  std::string text_;
  bool has_begun_ = false;
  ProfileFacts facts_;
};

}  // namespace strata
