#include "tools/tierbench/timing.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/status.h"
#include "tools/tierbench/cpu_time.h"

namespace strata {
namespace {

constexpr int64_t kStartsMax = 100'000;
/// Long enough for the clock, and for what runs for the first time.
constexpr double kWarmUpShare = 0.25;

absl::StatusOr<double> Time(const TimedWork& work, int64_t count) {
  const double begin = NowSeconds();
  for (int64_t i = 0; i < count; ++i) STRATA_RETURN_IF_ERROR(work.start());
  STRATA_RETURN_IF_ERROR(work.finish());
  return NowSeconds() - begin;
}

}  // namespace

absl::StatusOr<std::vector<double>> TimeWork(const TimedWork& work, TimeBudget budget,
                                             const Stop& stop) {
  STRATA_RETURN_IF_ERROR(Time(work, 1).status());
  int64_t count = 1;
  while (true) {
    STRATA_RETURN_IF_ERROR(stop.status());
    STRATA_ASSIGN_OR_RETURN(const double seconds, Time(work, count));
    const double per_start = std::max(seconds / static_cast<double>(count), 1e-9);
    const auto wanted =
        static_cast<int64_t>(std::ceil(budget.loop_seconds / per_start));
    const bool is_known = seconds >= budget.loop_seconds * kWarmUpShare;
    count = std::clamp<int64_t>(is_known ? wanted : std::min(wanted, count * 8), 1,
                                kStartsMax);
    if (is_known || count == kStartsMax) break;
  }
  std::vector<double> times;
  for (int loop = 0; loop < budget.loops; ++loop) {
    STRATA_RETURN_IF_ERROR(stop.status());
    STRATA_ASSIGN_OR_RETURN(const double seconds, Time(work, count));
    times.push_back(seconds / static_cast<double>(count));
  }
  return times;
}

}  // namespace strata
