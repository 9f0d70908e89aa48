/// From the progress of a disk run to a phase: rates by loop, latencies, cost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "tools/tierbench/disk_bench.h"

namespace strata {

Phase MakeDiskPhase(DiskOp op, const DiskSettings& settings,
                    const DiskRunResult& result);

/// Bytes per second in each of `loops` equal parts of [begin, end).
std::vector<double> RatesByTime(std::span<const DiskProgress> progress, double begin,
                                double end, int loops);
/// Bytes per second for each of `loops` equal numbers of bytes.
std::vector<double> RatesByBytes(std::span<const DiskProgress> progress, int loops);
/// The lowest rate in any whole second of [begin, end), seconds counted from begin; 0
/// if there is none.
double WorstSecond(std::span<const DiskProgress> progress, double begin, double end);

/// What the drives below the files have completed, by their own count.
using RequestCounts = int64_t;
RequestCounts CountRequests(std::span<const std::unique_ptr<DriveFile>> drives);
void SetRequestsPerChunk(RequestCounts before, RequestCounts after,
                         const DiskRunResult& result, Phase& phase);

}  // namespace strata
