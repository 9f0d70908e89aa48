#include "tools/tiertrain/process_memory.h"

#include <fstream>
#include <string>

namespace strata {

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string key;
  int64_t kilobytes = 0;
  while (status >> key) {
    if (key == "VmRSS:" && status >> kilobytes)
      memory.resident_bytes = kilobytes * 1024;
    if (key == "VmHWM:" && status >> kilobytes) memory.peak_bytes = kilobytes * 1024;
  }
  return memory;
}

}  // namespace strata
