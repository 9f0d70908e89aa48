/// tierinfo as a user sees it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

using Json = nlohmann::json;

ProgramRun TierInfo(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TIERINFO);
  return RunProgram(arguments, {});
}

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

TEST(TierInfo, TellsEveryTierAndWritesTheSameAsJson) {
  const TemporaryDirectory directory;
  const std::string file = directory.File("info.json");
  const ProgramRun run = TierInfo({"--nvme_path", directory.path(), "--json", file});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  for (const char* title : {"Machine\n", "Device\n", "Host memory\n", "NVMe\n"}) {
    EXPECT_NE(run.output.find(title), std::string::npos) << title;
  }
  const Json info = ReadJson(file);
  ASSERT_TRUE(info.is_object());
  EXPECT_GT(info["machine"]["cores"], 0);
  EXPECT_GT(info["host"]["available_bytes"], 0);
  EXPECT_TRUE(info["device"]["available"].is_boolean());
  ASSERT_EQ(info["nvme"]["paths"].size(), 1u);
  const Json& path = info["nvme"]["paths"][0];
  EXPECT_EQ(path["path"], directory.path());
  EXPECT_EQ(path["usable"], true);
  ASSERT_EQ(path["backends"].size(), 3u);
  EXPECT_EQ(path["backends"][2]["name"], "threads");
  EXPECT_EQ(path["backends"][2]["works"], true);
  for (const Json& limit : info["limits"]) {
    EXPECT_FALSE(limit["what"].get<std::string>().empty());
    EXPECT_FALSE(limit["do"].get<std::string>().empty()) << limit;
  }
}

TEST(TierInfo, LeavesNothingInADirectoryThatItProbes) {
  const TemporaryDirectory directory;
  const std::string missing = directory.File("a/b");
  EXPECT_EQ(TierInfo({"--nvme_path", missing}).exit_code, 0);
  EXPECT_EQ(TierInfo({"--nvme_path", directory.path()}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(TierInfo, SaysWhyADirectoryCannotBeUsed) {
  const ProgramRun run = TierInfo({"--nvme_path", "/proc/nowhere", "--json", "-"});
  EXPECT_EQ(run.exit_code, 0);
  const Json info = Json::parse(run.output, nullptr, false);
  ASSERT_TRUE(info.is_object()) << run.output;
  EXPECT_EQ(info["nvme"]["paths"][0]["usable"], false);
  bool is_named = false;
  for (const Json& limit : info["limits"]) {
    is_named |= limit["what"].get<std::string>().find("/proc/nowhere") == 0;
  }
  EXPECT_TRUE(is_named);
}

TEST(TierInfo, RefusesBadCommandLinesWithTwoLines) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("file", "x");
  for (const auto& [arguments, named] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--nvme_paht", "x"}, "--nvme_path"},
           {{"--nvme_path", file}, file},
           {{"--nvme_path"}, "--nvme_path"},
           {{"here"}, "'here'"}}) {
    const ProgramRun run = TierInfo(arguments);
    EXPECT_EQ(run.exit_code, 2) << named;
    EXPECT_EQ(run.output, "");
    EXPECT_EQ(run.errors.find("error: "), 0u) << run.errors;
    EXPECT_NE(run.errors.find("\ndo: "), std::string::npos) << run.errors;
    EXPECT_NE(run.errors.find(named), std::string::npos) << run.errors;
    EXPECT_EQ(std::count(run.errors.begin(), run.errors.end(), '\n'), 2);
  }
}

TEST(TierInfo, FailsWithOneWhereTheJsonCannotBeWritten) {
  const ProgramRun run = TierInfo({"--json", "/nowhere/info.json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.errors.find("/nowhere/info.json"), std::string::npos) << run.errors;
}

TEST(TierInfo, HasHelpAndVersion) {
  const ProgramRun help = TierInfo({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_NE(help.output.find("--nvme_path DIR"), std::string::npos);
  const ProgramRun version = TierInfo({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.output.find("tierinfo (strata) "), 0u);
}

}  // namespace
}  // namespace strata
