#include "tools/tierbench/host_bench.h"

#include <cstring>

#include "kernels/cpu/thread_pool.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tools/tierbench/bench_memory.h"

namespace strata {
namespace {

/// More than any cache, together with its copy.
constexpr int64_t kBytes = 512 * kMiB;
constexpr int64_t kBlockBytes = 4 * kMiB;

absl::StatusOr<Phase> Measure(Phase phase, double bytes_per_start,
                              const TimedWork& work, TimeBudget budget,
                              const Stop& stop) {
  STRATA_ASSIGN_OR_RETURN(const std::vector<double> times,
                          TimeWork(work, budget, stop));
  std::vector<double> rates;
  for (const double seconds : times) {
    rates.push_back(bytes_per_start / seconds);
    phase.seconds += seconds;
  }
  phase.bytes = bytes_per_start * static_cast<double>(times.size());
  SetSamples(phase, std::move(rates));
  return phase;
}

}  // namespace

absl::StatusOr<Phase> MeasureHostCopy(TimeBudget budget, const Stop& stop) {
  STRATA_ASSIGN_OR_RETURN(const auto source, BenchMemory::Create(Pages::kHuge, kBytes));
  STRATA_ASSIGN_OR_RETURN(const auto target, BenchMemory::Create(Pages::kHuge, kBytes));
  const TimedWork work{.start =
                           [&] {
                             std::memcpy(target->data(), source->data(),
                                         static_cast<size_t>(kBytes));
                             return absl::OkStatus();
                           },
                       .finish = [] { return absl::OkStatus(); }};
  return Measure({.name = "host_copy", .label = "host copy, 1 thread"},
                 static_cast<double>(kBytes), work, budget, stop);
}

absl::StatusOr<Phase> MeasureHostMemory(int threads, TimeBudget budget,
                                        const Stop& stop) {
  STRATA_ASSIGN_OR_RETURN(const auto source, BenchMemory::Create(Pages::kHuge, kBytes));
  STRATA_ASSIGN_OR_RETURN(const auto target, BenchMemory::Create(Pages::kHuge, kBytes));
  ThreadPool pool(threads);
  const TimedWork work{.start =
                           [&] {
                             pool.Run(kBytes / kBlockBytes, [&](int64_t block) {
                               std::memcpy(target->data() + block * kBlockBytes,
                                           source->data() + block * kBlockBytes,
                                           static_cast<size_t>(kBlockBytes));
                             });
                             return absl::OkStatus();
                           },
                       .finish = [] { return absl::OkStatus(); }};
  Phase phase{.name = "host_memory",
              .label = "host memory, all threads (read + write)"};
  phase.params["threads"] = threads;
  return Measure(std::move(phase), 2.0 * static_cast<double>(kBytes), work, budget,
                 stop);
}

}  // namespace strata
