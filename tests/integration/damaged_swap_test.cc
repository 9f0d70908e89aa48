/// Bytes that another program, a drive or a cable changed on NVMe end the run with what
/// and where; no number is computed from them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <regex>

#include "runtime/base/status.h"
#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

RunRequest OptimizerOnNvme(const TiertrainRun& run, const std::string& flags) {
  return {.rows = Sequences(0, 4),
          .flags = flags + " --placement optimizer=nvme --nvme_path " +
                   run.directory().File("swap")};
}

/// The swap file of the one run under `folder`.
std::string SwapFile(const std::string& folder) {
  std::string largest;
  uintmax_t size_bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() <= size_bytes) continue;
    size_bytes = entry.file_size();
    largest = entry.path();
  }
  return largest;
}

/// Damages the swap file between steps until the run ends: a step may write over the
/// damage before it reads it.
RunOutcome TrainWithDamage(
    const TiertrainRun& run,
    const std::function<void(int file, int64_t size_bytes, int round)>& damage) {
  RunningTiertrain running = run.Start(OptimizerOnNvme(run, "--max_steps 1000000"));
  EXPECT_TRUE(running.WaitForLine("step 2/"));
  const std::string path = SwapFile(run.directory().File("swap"));
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  STRATA_CHECK(file >= 0);
  const auto size_bytes = static_cast<int64_t>(fs::file_size(path));
  int round = 0;
  do {
    running.Signal(SIGSTOP);
    damage(file, size_bytes, ++round);
    running.Signal(SIGCONT);
  } while (running.WaitForLine("step "));
  close(file);
  return running.Finish();
}

/// The error names shard, place and file; the log holds what a sound run logs, as far
/// as it goes; nothing else is left.
void ExpectNamedAndHarmless(const TiertrainRun& run, const RunOutcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  const std::regex named(
      "read '[^']*(embed|layer|block|head)[^']*' at [0-9]+\\+[0-9]+ in [^ ]*/swap/[^ "
      "]+");
  EXPECT_TRUE(std::regex_search(outcome.errors, named)) << outcome.errors;
  std::vector<std::string> left = TiertrainRun().List();
  left.insert(left.begin(), "log.jsonl");
  EXPECT_EQ(run.List(), left);

  const TiertrainRun sound;
  const RunOutcome expected = sound.Run(
      OptimizerOnNvme(sound, "--max_steps " + std::to_string(outcome.steps.size())));
  ASSERT_EQ(expected.steps.size(), outcome.steps.size());
  EXPECT_EQ(outcome.Losses(), expected.Losses());
}

TEST(DamagedSwap, OverwrittenBytesEndTheRun) {
  const TiertrainRun run;
  const RunOutcome outcome =
      TrainWithDamage(run, [](int file, int64_t size_bytes, int round) {
        const std::string garbage(static_cast<size_t>(size_bytes),
                                  static_cast<char>(round));
        STRATA_CHECK(pwrite(file, garbage.data(), garbage.size(), 0) == size_bytes);
      });
  EXPECT_NE(outcome.errors.find("checksum"), std::string::npos) << outcome.errors;
  ExpectNamedAndHarmless(run, outcome);
}

TEST(DamagedSwap, ATruncatedFileEndsTheRun) {
  const TiertrainRun run;
  const RunOutcome outcome = TrainWithDamage(
      run, [](int file, int64_t, int) { STRATA_CHECK(ftruncate(file, 0) == 0); });
  ExpectNamedAndHarmless(run, outcome);
}

}  // namespace
}  // namespace strata
