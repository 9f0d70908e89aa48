/// Waits of tests for asynchronous work: no sleeps, an error ends the wait, and a hang
/// is ended by ctest's timeout.
#pragma once

#include <absl/status/status.h>

#include <thread>

#include "runtime/storage/store.h"

namespace strata {

inline absl::Status WaitForReads(Store& store, Ticket ticket) {
  while (true) {
    const absl::StatusOr<Ticket> completed = store.ReadsCompleted();
    if (!completed.ok()) return completed.status();
    if (*completed >= ticket) return absl::OkStatus();
    std::this_thread::yield();
  }
}

inline absl::Status WaitForWrites(Store& store, Ticket ticket) {
  while (true) {
    const absl::StatusOr<Ticket> completed = store.WritesCompleted();
    if (!completed.ok()) return completed.status();
    if (*completed >= ticket) return absl::OkStatus();
    std::this_thread::yield();
  }
}

}  // namespace strata
