/// What the kernel says that this process holds.
#pragma once

#include <cstdint>

namespace strata {

struct ProcessMemory {
  int64_t resident_bytes = 0;  // now
  int64_t peak_bytes = 0;      // the most so far
};

/// Zeros where /proc is not mounted.
ProcessMemory ReadProcessMemory();

}  // namespace strata
