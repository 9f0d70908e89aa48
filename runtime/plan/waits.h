/// Derives the waits of plans from their accesses: what makes sequential programs
/// parallel.
#pragma once

#include <span>
#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// Fills plan.waits: each operation waits for the earlier operations of other lanes
/// (and, in the nvme lanes, of its own) that it conflicts with, less those that are
/// implied.
void DeriveWaits(Plan& plan);

/// Waits of each plan in `seconds` on `first` when it follows it. All have their own
/// waits already.
std::vector<std::vector<Link::Wait>> DeriveLinks(const Plan& first,
                                                 std::span<const Plan* const> seconds);

}  // namespace strata
