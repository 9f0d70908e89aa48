/// Says in ctest's list whether every I/O backend was tested on this machine.
#include "tests/support/backends.h"

int main() {
  const auto working = strata::WorkingBackends();
  if (working.empty() || working.back() != strata::IoBackend::kThreads) return 1;
  return working.size() == strata::kIoBackends.size() ? 0 : strata::kSkipped;
}
