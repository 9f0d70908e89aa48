#include "tools/tierbench/cpu_time.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>

namespace strata {
namespace {

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double SystemSeconds() {
  std::ifstream file("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0;
  file >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  return (user + nice + system + irq + softirq) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

CpuTime CpuTime::Now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.process_seconds = Seconds(usage.ru_utime) + Seconds(usage.ru_stime),
          .system_seconds = SystemSeconds()};
}

double NowSeconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

}  // namespace strata
