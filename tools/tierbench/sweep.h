/// Which chunk and which window a drive is fastest with: tries them, and says the
/// answer in words that can be pasted.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <vector>

#include "tools/tierbench/disk_bench.h"

namespace strata {

enum class SweepKind : uint8_t { kQuick, kFull };

struct SweepPoint {
  int64_t chunk_bytes = 0;
  int64_t window_bytes = 0;
  bool registers_memory = true;
  double read = 0, write = 0;          // bytes per second
  double read_cpu = 0, write_cpu = 0;  // seconds per GiB
};

/// What a sweep tries, largest window last. No window is larger than
/// kSweepWindowBytes, which the DiskBench must have been made with.
inline constexpr int64_t kSweepWindowBytes = 64 * kMiB;
std::vector<SweepPoint> SweepPoints(SweepKind kind);

/// Measures them; `show` is called with each as it is known.
absl::StatusOr<std::vector<SweepPoint>> Sweep(
    DiskBench& bench, SweepKind kind, const Stop& stop,
    const std::function<void(const SweepPoint&)>& show);

/// The point whose reads and writes are both near the best of all; of those within 3 %
/// of each other the one with the smallest window, where a late read waits least.
/// REQUIRES: at least one.
SweepPoint ChoosePoint(const std::vector<SweepPoint>& points);

std::string SweepHead();
std::string SweepRow(const SweepPoint& point);
/// The choice as tierbench's flags and as DeepSpeed's "aio" block.
std::string TunedText(const SweepPoint& choice);
nlohmann::ordered_json TunedJson(const SweepPoint& choice,
                                 const std::vector<SweepPoint>& points);

}  // namespace strata
