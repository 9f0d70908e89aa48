/// Derives the waits of plans from their accesses: what makes sequential programs
/// parallel.
#pragma once

#include <vector>

#include "runtime/plan/plan.h"

namespace strata {

/// Fills plan.waits: each operation waits for the earlier operations of other lanes
/// (and, in the nvme lanes, of its own) that it conflicts with, less those that are
/// implied.
void DeriveWaits(Plan& plan);

/// Waits of `second` on `first` when it follows it. Both have their own waits already.
std::vector<Link::Wait> DeriveLink(const Plan& first, const Plan& second);

}  // namespace strata
