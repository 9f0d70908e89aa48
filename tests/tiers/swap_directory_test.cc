#include "tiers/swap_directory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/temp_directory.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

void WriteFile(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}
std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs `body` in a child process, which never returns into the test.
pid_t Fork(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  STRATA_CHECK(child > 0);
  return child;
}
int WaitFor(pid_t child) {
  int status = 0;
  STRATA_CHECK(waitpid(child, &status, 0) == child);
  return status;
}

/// Makes a swap directory with a file of 1 MiB in it, and dies.
void StartAndDie(const std::string& path) {
  const int status = WaitFor(Fork([&] {
    const auto swap = SwapDirectory::Create(path);
    if (!swap.ok()) return 1;
    WriteFile((*swap)->path() + "/swap", std::string(1 << 20, 'x'));
    return raise(SIGKILL);
  }));
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(SwapDirectory, MakesTheMissingPathAndLeavesNothing) {
  TempDirectory directory;
  {
    const auto swap = SwapDirectory::Create(directory / "a/b/c");
    ASSERT_TRUE(swap.ok()) << swap.status();
    EXPECT_TRUE(fs::is_directory((*swap)->path()));
    EXPECT_TRUE((*swap)->path().starts_with(directory / "a/b/c/"));
    WriteFile((*swap)->path() + "/swap", "bytes");
  }
  EXPECT_TRUE(ListTree(directory.path()).empty());
}

TEST(SwapDirectory, KeepsAPathThatWasThereBefore) {
  TempDirectory directory;
  for (const std::string suffix : {"", "/", "/.", "//"}) {
    { ASSERT_TRUE(SwapDirectory::Create(directory.path() + suffix).ok()); }
    EXPECT_TRUE(fs::is_directory(directory.path()));
    EXPECT_TRUE(ListTree(directory.path()).empty());
  }
}

TEST(SwapDirectory, TakesLongPathsWithSpacesAndUmlauts) {
  TempDirectory directory;
  const std::string path = directory / ("Größe und Maß " + std::string(200, 'x'));
  {
    const auto swap = SwapDirectory::Create(path);
    ASSERT_TRUE(swap.ok()) << swap.status();
  }
  EXPECT_TRUE(ListTree(directory.path()).empty());
}

TEST(SwapDirectory, FollowsALinkToADirectory) {
  TempDirectory directory;
  fs::create_directory(directory / "real");
  fs::create_directory_symlink(directory / "real", directory / "link");
  { ASSERT_TRUE(SwapDirectory::Create(directory / "link").ok()); }
  EXPECT_EQ(ListTree(directory.path()), (std::vector<std::string>{"link", "real"}));
}

TEST(SwapDirectory, RefusalsNameThePathAndTheReason) {
  TempDirectory directory;
  WriteFile(directory / "file", "mine");
  fs::create_symlink(directory / "nowhere", directory / "dangling");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {directory / "file", "is a file, not a directory"},
      {directory / "file/below", "Not a directory"},
      {directory / "dangling", "a link that leads nowhere"},
      {directory / std::string(300, 'x'), "File name too long"},
      {"/sys/strata-test", "cannot create"},
      {"", "empty"},
  };
  for (const auto& [path, reason] : cases) {
    const absl::Status status = SwapDirectory::Create(path).status();
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_NE(status.message().find("nvme_path"), std::string::npos) << status;
    EXPECT_NE(status.message().find(path), std::string::npos) << status;
    EXPECT_NE(status.message().find(reason), std::string::npos) << status;
  }
  EXPECT_EQ(ListTree(directory.path()), (std::vector<std::string>{"dangling", "file"}));
  EXPECT_EQ(ReadFile(directory / "file"), "mine");
}

TEST(SwapDirectory, LeavesTheUsersFilesAlone) {
  TempDirectory directory;
  const std::vector<std::string> names = {
      "notes.txt", "0.swp", "swap", "lock", "strata-swap-", "strata-swap-9-9"};
  for (const std::string& name : names) WriteFile(directory / name, "mine: " + name);
  fs::create_directory(directory / "strata-swap-8-8");  // looks like ours, holds theirs
  WriteFile(directory / "strata-swap-8-8/thesis.tex", "mine");
  fs::create_directory(directory / "strata-swap-mine");
  const auto before = ListTree(directory.path());
  { ASSERT_TRUE(SwapDirectory::Create(directory.path()).ok()); }
  EXPECT_EQ(ListTree(directory.path()), before);
  for (const std::string& name : names) {
    EXPECT_EQ(ReadFile(directory / name), "mine: " + name);
  }
}

TEST(SwapDirectory, KeepsADirectoryItMadeIfTheUserPutSomethingThere) {
  TempDirectory directory;
  {
    const auto swap = SwapDirectory::Create(directory / "new");
    ASSERT_TRUE(swap.ok());
    WriteFile(directory / "new/notes.txt", "mine");
  }
  EXPECT_EQ(ListTree(directory.path()),
            (std::vector<std::string>{"new", "new/notes.txt"}));
}

TEST(SwapDirectory, CleansUpAfterRunsThatWereKilled) {
  TempDirectory directory;
  for (int i = 0; i < 3; ++i) {
    StartAndDie(directory / "new");
    EXPECT_EQ(ListTree(directory / "new").size(),
              4u);  // the last one's, and the marker
  }
  {
    const auto swap = SwapDirectory::Create(directory / "new");
    ASSERT_TRUE(swap.ok()) << swap.status();
    ASSERT_EQ((*swap)->removed_paths().size(), 1u);
    EXPECT_TRUE(
        (*swap)->removed_paths()[0].starts_with(directory / "new/strata-swap-"));
  }
  EXPECT_TRUE(ListTree(directory.path()).empty());
}

TEST(SwapDirectory, SparesRunsThatLive) {
  TempDirectory directory;
  const auto first = SwapDirectory::Create(directory / "new");
  ASSERT_TRUE(first.ok());
  WriteFile((*first)->path() + "/swap", "alive");
  EXPECT_EQ(WaitFor(Fork([&] {
              const auto second = SwapDirectory::Create(directory / "new");
              return second.ok() && (*second)->removed_paths().empty() ? 0 : 1;
            })),
            0);
  EXPECT_EQ(ReadFile((*first)->path() + "/swap"), "alive");
}

TEST(SwapDirectory, TheLastOfSeveralRunsRemovesWhatTheFirstMade) {
  TempDirectory directory;
  auto first = SwapDirectory::Create(directory / "a/b");
  auto second = SwapDirectory::Create(directory / "a/b");
  auto third = SwapDirectory::Create(directory / "a/c");
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  first->reset();
  EXPECT_TRUE(fs::exists((*second)->path()));
  second->reset();
  EXPECT_TRUE(fs::exists((*third)->path()));
  third->reset();
  EXPECT_TRUE(ListTree(directory.path()).empty());
}

TEST(SwapDirectory, ACopyInAForkedChildRemovesNothing) {
  TempDirectory directory;
  auto swap = SwapDirectory::Create(directory / "new");
  ASSERT_TRUE(swap.ok());
  EXPECT_EQ(WaitFor(Fork([&] {
              swap->reset();
              return 0;
            })),
            0);
  EXPECT_TRUE(fs::exists((*swap)->path() + "/lock"));
}

TEST(SwapDirectory, ManyProcessesStartAndEndTogether) {
  TempDirectory directory;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i) {
    children.push_back(Fork([&] {
      for (int round = 0; round < 25; ++round) {
        const auto swap = SwapDirectory::Create(directory / "a/b");
        if (!swap.ok()) {
          std::cerr << swap.status() << "\n";
          return 1;
        }
        WriteFile((*swap)->path() + "/swap", "mine");
        if (!(*swap)->removed_paths().empty()) return 2;
        if (ReadFile((*swap)->path() + "/swap") != "mine") return 3;
      }
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(WaitFor(child), 0);
  EXPECT_TRUE(ListTree(directory.path()).empty());
}

}  // namespace
}  // namespace strata
