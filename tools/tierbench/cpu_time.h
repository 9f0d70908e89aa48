/// Processor time that a measurement cost: of this process, and of the whole machine.
#pragma once

namespace strata {

struct CpuTime {
  double process_seconds = 0;  // user and system, kernel workers of our rings included
  double system_seconds = 0;   // everybody, interrupts included; counted in 10 ms

  static CpuTime Now();
  friend CpuTime operator-(const CpuTime& a, const CpuTime& b) {
    return {a.process_seconds - b.process_seconds, a.system_seconds - b.system_seconds};
  }
};

/// Seconds of the monotonic clock.
double NowSeconds();

}  // namespace strata
