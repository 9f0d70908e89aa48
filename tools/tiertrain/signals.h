/// Ctrl-C. The first signal asks the run to end in order; the second one ends the
/// process at once, but for the files on drives that nobody else would remove.
#pragma once

#include <atomic>
#include <string>
#include <vector>

namespace strata {

/// Catches SIGINT and SIGTERM from now on. True once one has come.
const std::atomic<bool>& CatchSignals();

/// What the second signal removes this process's swap directories from. Once.
void RemoveSwapAtSecondSignal(const std::vector<std::string>& nvme_paths);

}  // namespace strata
