/// The machine and the drives that the numbers are from, and what makes those numbers
/// mean less than they seem to.
#pragma once

#include "tools/machine/system_view.h"
#include "tools/tierbench/bench_report.h"
#include "tools/tierbench/disk_bench.h"

namespace strata {

/// Kernel, cores, memory, limits.
void AddHostFacts(const SystemView& system, BenchReport& report);

/// Filesystem, drive, queue of each directory; the backend and why it was taken.
void AddDiskFacts(const SystemView& system, const DiskBench& bench,
                  BenchReport& report);

/// After measuring: page cache, holes, io_uring's slow path, unsteadiness.
void AddDiskChecks(const DiskBench& bench, BenchReport& report);

}  // namespace strata
