#include "tests/support/traced_save.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <random>
#include <set>

#include "model/checkpoint_folder.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

/// Those that a save makes on files and directories.
bool ChangesFiles(unsigned long long call) {
  static const std::set<unsigned long long> kCalls = {
      SYS_openat, SYS_write,    SYS_pwrite64,  SYS_fallocate, SYS_fsync,
      SYS_rename, SYS_renameat, SYS_renameat2, SYS_mkdir,     SYS_mkdirat,
      SYS_unlink, SYS_unlinkat, SYS_rmdir,     SYS_close};
  return kCalls.contains(call);
}

/// In a process of its own: two steps, each followed by a save; the second one, after
/// which the first checkpoint goes, is traced.
[[noreturn]] void TrainAndSave(const std::string& path) {
  const Scenario scenario{{.dtype = DType::kBF16}, {.max_grad_norm = 4.3}};
  ToyTrainer toy = MakeToyTrainer(scenario, 1);
  bool good = toy.trainer->LoadWeights(ToyWeights()).ok();
  auto folder = CheckpointFolder::Open(path);
  Trace trace;
  for (int step = 0; good && step < 2; ++step) {
    good = RunStep(*toy.trainer, toy.trainer->model(), scenario, step, trace);
    if (step == 1) {
      ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
      raise(SIGSTOP);
    }
    const RunState run{.run_id = "traced", .step = step + 1};
    good = good && (*folder)->Save(*toy.trainer, {.run = run, .keep_max = 1}).ok();
  }
  _exit(good ? 0 : 1);
}

TracedSave Watch(pid_t child, int last_call, const std::function<void()>& before_kill) {
  TracedSave outcome;
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSTOPPED(status));
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  for (bool entering = true;;) {
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, child, nullptr, &registers);
    if (entering && ChangesFiles(registers.orig_rax) && ++outcome.calls == last_call) {
      if (before_kill) before_kill();
      kill(child, SIGKILL);
      EXPECT_EQ(waitpid(child, &status, 0), child);
      outcome.killed = true;
      return outcome;
    }
    entering = !entering;
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return outcome;
}

}  // namespace

TracedSave SaveTwice(const std::string& path, int last_call,
                     const std::function<void()>& before_kill) {
  const pid_t child = fork();
  if (child == 0) TrainAndSave(path);
  EXPECT_GT(child, 0);
  return Watch(child, last_call, before_kill);
}

std::vector<int> SomeCalls(int calls, int count) {
  std::vector<int> some(static_cast<size_t>(calls));
  std::iota(some.begin(), some.end(), 1);
  std::shuffle(some.begin(), some.end(), std::mt19937(42));
  some.resize(static_cast<size_t>(std::min(calls, count)));
  return some;
}

int CallsToTry(int argc, char** argv, int usual) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--calls=all") return 1 << 20;
    if (argument.rfind("--calls=", 0) == 0) return std::atoi(argv[i] + 8);
  }
  return usual;
}

}  // namespace strata
