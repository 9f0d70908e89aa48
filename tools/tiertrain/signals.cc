#include "tools/tiertrain/signals.h"

#include <semaphore.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "runtime/base/status.h"
#include "tiers/swap_directory.h"
#include "tools/cli/program.h"

namespace strata {
namespace {

// What a signal handler may touch.
std::atomic<int> g_signals = 0;
std::atomic<bool> g_interrupted = false;
std::atomic<bool> g_remover_waits = false;
sem_t g_second_signal;
static_assert(std::atomic<bool>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free);

void OnSignal(int) {
  const int before = g_signals.fetch_add(1);
  g_interrupted = true;
  if (before == 0) return;
  // Removing may hang on a sick drive; then the third signal ends it.
  if (before == 1 && g_remover_waits) {
    sem_post(&g_second_signal);
  } else {
    _exit(cli::kInterrupted);
  }
}

}  // namespace

const std::atomic<bool>& CatchSignals() {
  std::signal(SIGINT, OnSignal);
  std::signal(SIGTERM, OnSignal);
  return g_interrupted;
}

void RemoveSwapAtSecondSignal(const std::vector<std::string>& nvme_paths) {
  if (nvme_paths.empty()) return;
  STRATA_CHECK(!g_remover_waits && sem_init(&g_second_signal, 0, 0) == 0);
  std::thread([nvme_paths] {
    while (sem_wait(&g_second_signal) != 0 && errno == EINTR) {
    }
    for (const std::string& path : nvme_paths) SwapDirectory::RemoveOwn(path);
    _exit(cli::kInterrupted);
  }).detach();
  g_remover_waits = true;
}

}  // namespace strata
