/// The I/O backends that this machine offers to tests. Those that it refuses, as
/// containers do, are named on stderr, and io_backends_test is then skipped by ctest.
#pragma once

#include <cstdio>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "tests/support/temp_directory.h"
#include "tiers/io_queue_probe.h"

namespace strata {

/// ctest's SKIP_RETURN_CODE.
inline constexpr int kSkipped = 77;

inline std::vector<IoBackend> WorkingBackends() {
  const TempDirectory directory;
  const auto probes = ProbeIoBackends(directory.path());
  STRATA_CHECK(probes.ok());
  std::vector<IoBackend> working;
  for (const IoProbe& probe : *probes) {
    if (probe.status.ok()) {
      working.push_back(probe.backend);
    } else {
      std::fprintf(stderr, "NOT TESTED: %s: %s\n", Name(probe.backend),
                   std::string(probe.status.message()).c_str());
    }
  }
  return working;
}

/// For names of tests and messages.
inline void PrintTo(IoBackend backend, std::ostream* out) { *out << Name(backend); }

}  // namespace strata
