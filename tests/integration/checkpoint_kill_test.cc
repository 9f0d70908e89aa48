/// kill -9 at any instant of a save leaves a complete checkpoint, and nothing that
/// stands in the way of the next start. The instants are the system calls that change
/// files, one after the other: `--kills=N` tries N of them, `--kills=all` all.

#include <absl/strings/match.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include "model/checkpoint_folder.h"
#include "tests/support/checkpoints.h"
#include "tests/support/temp_directory.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

int g_kills = 10;

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
[[noreturn]] void SaveTwice(const std::string& path) {
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
    const RunState run{.run_id = "killed", .step = step + 1};
    good = good && (*folder)->Save(*toy.trainer, {.run = run, .keep_max = 1}).ok();
  }
  _exit(good ? 0 : 1);
}

struct Outcome {
  int calls = 0;  // that change files, until the end or the kill
  bool killed = false;
};

/// Kills the process when it is about to make its `last`-th such call; 0: never.
Outcome Watch(pid_t child, int last) {
  Outcome outcome;
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
    if (entering && ChangesFiles(registers.orig_rax) && ++outcome.calls == last) {
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

Outcome SaveTwiceAndKill(const std::string& path, int last) {
  const pid_t child = fork();
  if (child == 0) SaveTwice(path);
  EXPECT_GT(child, 0);
  return Watch(child, last);
}

TEST(CheckpointKill, AtAnyInstantOfASaveOneCompleteCheckpointIsFound) {
  const TempDirectory whole;
  const int calls = SaveTwiceAndKill(whole.path(), 0).calls;
  ASSERT_GT(calls, 50);
  const auto second = TensorFiles(whole / "checkpoint-2");
  std::map<std::string, std::string> first;

  std::vector<int> instants(static_cast<size_t>(calls));
  std::iota(instants.begin(), instants.end(), 1);
  std::shuffle(instants.begin(), instants.end(), std::mt19937(42));
  instants.resize(std::min<size_t>(instants.size(), static_cast<size_t>(g_kills)));
  int found_first = 0;
  for (const int instant : instants) {
    SCOPED_TRACE(instant);
    const TempDirectory directory;
    EXPECT_TRUE(SaveTwiceAndKill(directory.path(), instant).killed);
    auto found = FindLatestCheckpoint(directory.path());
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->passed_over, std::vector<std::string>());
    const auto files = TensorFiles(found->directory);
    if (found->manifest.run.step == 1) {
      ++found_first;
      if (first.empty()) first = files;
      EXPECT_EQ(files, first);
    } else {
      EXPECT_EQ(files, second);
    }
    // The next start has the folder for itself, and only checkpoints are in it.
    const auto folder = CheckpointFolder::Open(directory.path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    for (const auto& entry : fs::directory_iterator(directory.path())) {
      EXPECT_TRUE(absl::StartsWith(entry.path().filename().string(), "checkpoint-"))
          << entry.path();
      EXPECT_TRUE(VerifyCheckpoint(entry.path()).ok());
    }
  }
  EXPECT_GT(found_first, 0);
  std::printf("killed at %zu of %d instants; %d times the older one was found\n",
              instants.size(), calls, found_first);
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--kills=", 0) != 0) return 2;
    const std::string count = argument.substr(8);
    strata::g_kills = count == "all" ? 1 << 20 : std::atoi(count.c_str());
  }
  return RUN_ALL_TESTS();
}
