/// Threads that do I/O take no signals: Ctrl-C belongs to the program's main thread,
/// and SIGXFSZ, which a write past RLIMIT_FSIZE raises, would kill the process although
/// the write also says EFBIG.
#pragma once

#include <csignal>

namespace strata {

/// For the calling thread, for as long as it lives.
inline void BlockAllSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace strata
