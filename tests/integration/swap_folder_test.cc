/// Folders on a drive: whatever happens to a run, nothing of ours stays in them for
/// longer than to the next start, and what is somebody else's is not touched.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

/// Everything that can rest there in `folder`.
RunRequest On(const std::string& folder, const std::string& flags = "--max_steps 3") {
  RunRequest request{.rows = Sequences(0, 3), .flags = flags};
  request.arguments = {"--placement", "weights=nvme,optimizer=nvme,activations=nvme",
                       "--nvme_path", folder};
  return request;
}

RunOutcome InMemory() {
  return TiertrainRun().Run({.rows = Sequences(0, 3), .flags = "--max_steps 3"});
}

std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ContentOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(SwapFolder, AMissingOneIsMadeWithItsParentsAndGoesAway) {
  const TiertrainRun run;
  const std::string folder = run.directory().File("a/b/c");
  const RunOutcome outcome = run.Run(On(folder));
  ExpectLosses(outcome, InMemory().Losses(), 0);
  EXPECT_FALSE(fs::exists(run.directory().File("a")));
}

TEST(SwapFolder, LongNamesWithSpacesAndUmlautsWork) {
  const TiertrainRun run;
  std::string folder = run.directory().File("mit Räumen für Äpfel ");
  while (folder.size() < 200) folder += "und Öl ";
  ExpectLosses(run.Run(On(folder)), InMemory().Losses(), 0);
  EXPECT_FALSE(fs::exists(folder));
}

TEST(SwapFolder, TheUsersFilesStayAsTheyAre) {
  const TiertrainRun run;
  const std::string folder = run.directory().File("scratch");
  fs::create_directories(folder + "/strata-swap-notes");
  const std::vector<std::string> files = {"/notes.txt", "/0.swp",
                                          "/strata-swap-notes/lock"};
  for (const std::string& file : files) std::ofstream(folder + file) << file;
  ExpectLosses(run.Run(On(folder)), InMemory().Losses(), 0);
  for (const std::string& file : files) EXPECT_EQ(ContentOf(folder + file), file);
  EXPECT_EQ(NamesIn(folder),
            (std::vector<std::string>{"0.swp", "notes.txt", "strata-swap-notes"}));
}

TEST(SwapFolder, TwoJobsInOneFolderDoNotMeet) {
  const TiertrainRun first, second;
  const std::string folder = first.directory().File("shared");
  const std::vector<double> expected = InMemory().Losses();
  RunningTiertrain running = first.Start(On(folder, "--max_steps 1000000"));
  ASSERT_TRUE(running.WaitForLine("step 1/"));
  ExpectLosses(second.Run(On(folder)), expected, 0);
  EXPECT_EQ(NamesIn(folder).size(),
            2u);  // the first job's, and the mark of who made it
  ASSERT_TRUE(running.WaitForLine("step 3/"));
  running.Signal(SIGINT);
  const RunOutcome outcome = running.Finish();
  EXPECT_EQ(outcome.exit_code, 130) << outcome.output;
  ASSERT_GE(outcome.steps.size(), 3u);
  for (size_t s = 0; s < 3; ++s) EXPECT_EQ(outcome.Loss(s), expected[s]);
  EXPECT_FALSE(fs::exists(folder));
}

TEST(SwapFolder, WhatKilledRunsLeftIsGoneAfterTheNextStart) {
  const TiertrainRun run;
  const std::string folder = run.directory().File("swap");
  std::vector<std::string> left;
  for (int kill = 0; kill < 5; ++kill) {
    RunningTiertrain running = run.Start(On(folder, "--max_steps 1000000"));
    ASSERT_TRUE(running.WaitForLine("step 2/"));
    running.Signal(SIGKILL);
    EXPECT_EQ(running.Finish().exit_code, 128 + SIGKILL);
    const std::vector<std::string> names = NamesIn(folder);
    EXPECT_EQ(names.size(), 2u) << "what was left has grown";
    EXPECT_NE(names, left) << "the swap directory of a dead run is still there";
    left = names;
  }
  ExpectLosses(run.Run(On(folder)), InMemory().Losses(), 0);
  EXPECT_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace strata
