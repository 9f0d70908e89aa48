/// tierbench as a user sees it.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

extern char** environ;

namespace strata {
namespace {

using Json = nlohmann::json;
using Arguments = std::vector<std::string>;

/// Small and short: one pass over little data.
Arguments Small(const std::string& directory, const Arguments& more) {
  Arguments all = {TIERBENCH, "--dir",      directory, "--total",
                   "32MiB",   "--loops",    "1",       "--chunk",
                   "512KiB",  "--inflight", "2MiB",    "--shard_size",
                   "4MiB",    "--device",   "cpu"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

ProgramRun Bench(const std::string& directory, const Arguments& more,
                 const Arguments& environment = {}) {
  return RunProgram(Small(directory, more), environment);
}

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file, nullptr, false);
}

std::vector<std::string> PhaseNames(const Json& bench) {
  std::vector<std::string> names;
  for (const Json& phase : bench["phases"]) names.push_back(phase["name"]);
  return names;
}

TEST(TierBench, MeasuresEverythingAsOneTableAndAsJson) {
  const TemporaryDirectory directory;
  const std::string file = directory.File("bench.json");
  const ProgramRun run = Bench(directory.File("drive"), {"--json", file});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Json bench = ReadJson(file);
  ASSERT_TRUE(bench.is_object());
  EXPECT_EQ(bench["schema"], "tierbench/1");
  EXPECT_EQ(bench["verdict"]["ok"], true);
  EXPECT_EQ(bench["engine"]["requested"], "auto");
  EXPECT_EQ(bench["targets"].size(), 1u);
  const std::vector<std::string> names = PhaseNames(bench);
  for (const char* name :
       {"read", "write", "mixed", "swap_read", "swap_write", "swap", "host_copy",
        "host_memory", "cpu_update", "cpu_advance", "cpu_update_busy", "host_to_device",
        "device_to_host", "both", "matmul_qkv", "attention"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
  for (const Json& phase : bench["phases"]) {
    EXPECT_GT(phase["gbps"]["median"], 0) << phase;
    EXPECT_LE(phase["gbps"]["min"], phase["gbps"]["max"]) << phase;
  }
  EXPECT_GT(bench["phases"][0]["shard_lat_us"]["p99"], 0);
  EXPECT_GT(bench["plan"]["read_gbps"], 0);
  EXPECT_NE(run.output.find("GiB/s"), std::string::npos);
  EXPECT_NE(run.output.find("nvme read"), std::string::npos);
}

TEST(TierBench, LeavesOtherPeoplesFilesAndNothingElse) {
  const TemporaryDirectory directory;
  directory.Write("swap", "mine");
  directory.Write("tierbench.json", "mine too");
  for (const char* op : {"read", "write", "mixed", "swap"}) {
    ASSERT_EQ(Bench(directory.path(), {"--op", op, "--verify"}).exit_code, 0) << op;
  }
  const std::string missing = directory.File("a/b");
  ASSERT_EQ(Bench(missing, {"--op", "read"}).exit_code, 0);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"swap", "tierbench.json"}));
  std::string mine;
  std::ifstream(directory.File("swap")) >> mine;
  EXPECT_EQ(mine, "mine");
}

TEST(TierBench, MeasuresOnlyWhatIsAskedFor) {
  const TemporaryDirectory directory;
  for (const auto& [arguments, names] :
       std::vector<std::pair<Arguments, std::vector<std::string>>>{
           {{"--op", "write"}, {"write"}},
           {{"--op", "swap"}, {"swap"}},
           {{"--path", "nvme-host", "--op", "read"}, {"read"}},
           {{"--path", "host-device"}, {"host_to_device"}},
           {{"--path", "nvme-device"}, {"nvme_to_device", "device_to_nvme"}},
           {{"--path", "both"}, {"both"}}}) {
    Arguments more = arguments;
    more.insert(more.end(), {"--json", "-"});
    const ProgramRun run = Bench(directory.path(), more);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    EXPECT_EQ(PhaseNames(Json::parse(run.output, nullptr, false)), names);
  }
}

TEST(TierBench, TakesEveryBackendAndKindOfPage) {
  const TemporaryDirectory directory;
  for (const char* backend : {"libaio", "threads"}) {
    const ProgramRun run = Bench(
        directory.path(), {"--op", "mixed", "--io_backend", backend, "--json", "-"});
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    const Json bench = Json::parse(run.output, nullptr, false);
    EXPECT_EQ(bench["engine"]["used"], backend);
    EXPECT_GT(bench["phases"][0]["params"]["read_gbps"], 0);
    EXPECT_GT(bench["phases"][0]["params"]["write_gbps"], 0);
  }
  for (const char* pages : {"4k", "shm"}) {
    EXPECT_EQ(Bench(directory.path(), {"--op", "read", "--pages", pages}).exit_code, 0);
  }
}

/// Of --compare's tests: a fio that answers at once, first in the path.
Arguments WithFakeFio(const TemporaryDirectory& directory, const std::string& json) {
  const std::string fio =
      directory.Write("fio",
                      "#!/bin/sh\n[ \"$1\" = --version ] && echo fio-9.9 && exit\n"
                      "echo '" +
                          json + "'\n");
  std::filesystem::permissions(fio, std::filesystem::perms::owner_all);
  return {"PATH=" + directory.path() + ":/usr/bin:/bin"};
}

TEST(TierBench, ComparesWithFioRoundByRound) {
  const TemporaryDirectory directory, programs;
  const Arguments environment = WithFakeFio(
      programs,
      R"({"jobs":[{"error":0,"usr_cpu":1.0,"sys_cpu":2.0,"read":{"io_bytes":1073741824,)"
      R"("bw_bytes":1000000,"runtime":1000}}]})");
  const ProgramRun run =
      Bench(directory.path(), {"--op", "read", "--compare", "fio", "--json", "-"},
            environment);
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Json bench = Json::parse(run.output, nullptr, false);
  const Json& result = bench["comparison"]["results"][0];
  EXPECT_EQ(bench["comparison"]["with"], "fio-9.9");
  EXPECT_DOUBLE_EQ(result["fio_gbps"], 0.001);
  EXPECT_NEAR(result["fio_cpu_s_per_gib"], 0.03, 1e-9);
  EXPECT_GT(result["rate_ratio"]["low"], 1) << "slower than a megabyte a second";
  EXPECT_LE(result["rate_ratio"]["low"], result["rate_ratio"]["high"]);
}

TEST(TierBench, RefusesToCompareWithoutFioAndFailsWithIt) {
  const TemporaryDirectory directory, programs;
  const Arguments compare = {"--op", "read", "--compare", "fio"};
  const ProgramRun none = Bench(directory.path(), compare, {"PATH=" + programs.path()});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.errors.find("apt-get install fio"), std::string::npos) << none.errors;
  const ProgramRun failing = Bench(directory.path(), compare,
                                   WithFakeFio(programs, R"({"jobs":[{"error":5}]})"));
  EXPECT_EQ(failing.exit_code, 1);
  EXPECT_NE(failing.errors.find("error 5"), std::string::npos) << failing.errors;
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(TierBench, TuningGivesWhatCanBePasted) {
  const TemporaryDirectory directory;
  const ProgramRun run =
      RunProgram({TIERBENCH, "--dir", directory.File("drive"), "--total", "256MiB",
                  "--loops", "1", "--tune", "--json", directory.File("tuned.json")},
                 {});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("\"aio\""), std::string::npos) << run.output;
  const Json tuned = ReadJson(directory.File("tuned.json"))["tuned"];
  const int64_t chunk = tuned["read"]["chunk"], window = tuned["read"]["inflight"];
  EXPECT_EQ(tuned["aio"]["block_size"], chunk);
  EXPECT_EQ(tuned["aio"]["queue_depth"], window / chunk);
  EXPECT_EQ(tuned["points"].size(), 11u);
}

TEST(TierBench, WritesForAsManyBytesAsAsked) {
  const TemporaryDirectory directory;
  const ProgramRun run =
      Bench(directory.path(), {"--sustained", "64MiB", "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  const Json bench = Json::parse(run.output, nullptr, false);
  EXPECT_EQ(PhaseNames(bench), std::vector<std::string>{"sustained_write"});
  EXPECT_EQ(bench["phases"][0]["bytes"], 64 << 20);
  EXPECT_TRUE(bench["phases"][0]["params"]["cliff_bytes"].is_null());
}

TEST(TierBench, SaysWhenThePageCacheIsMeasured) {
  const TemporaryDirectory directory;
  const ProgramRun run = Bench(directory.path(), {"--op", "read", "--direct", "off"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("page cache"), std::string::npos) << run.output;
}

TEST(TierBench, SaysWhenTheDriveIsMemory) {
  const ProgramRun run = Bench("/dev/shm/tierbench-test", {"--op", "read"});
  ASSERT_EQ(run.exit_code, 0) << run.errors;
  EXPECT_NE(run.output.find("tmpfs"), std::string::npos) << run.output;
  EXPECT_FALSE(std::filesystem::exists("/dev/shm/tierbench-test"));
}

TEST(TierBench, RefusesWhatCannotBeMeasuredWithTheNumbers) {
  const TemporaryDirectory directory;
  const std::string file = directory.Write("file", "x");
  for (const auto& [arguments, named] : std::vector<std::pair<Arguments, std::string>>{
           {{"--dir", file}, file},
           {{"--chunk", "1000"}, "1000"},
           {{"--shard_size", "0"}, "--shard_size"},
           {{"--chunk", "4GiB", "--inflight", "16GiB"}, "4294967296"},
           {{"--inflight", "4KiB"}, "4096"},
           {{"--total", "1MiB"}, "1048576"},
           {{"--total", "4PiB"}, "4PiB"},
           {{"--total", "900TiB"}, "989560464998400"},
           {{"--op", "erase"}, "erase"},
           {{"--op", "read", "--path", "both"}, "both"},
           {{"--op", "read", "--save_profile"}, "--save_profile"},
           {{"--loops", "0"}, "--loops"},
           {{"--sustained", "soon"}, "soon"},
           {{"--sustained", "5", "--compare", "fio"}, "--sustained"},
           {{"--tune"}, "--chunk"},
           {{"--compare", "fio", "--op", "mixed"}, "--op"},
           {{"--path", "nvme-device", "--op", "swap"}, "swap"},
           {{"--io_backend", "spdk"}, "spdk"},
           {{"--dir", "/proc/nowhere"}, "/proc/nowhere"}}) {
    const ProgramRun run = Bench(directory.path(), arguments);
    EXPECT_EQ(run.exit_code, 2) << named << run.output;
    EXPECT_EQ(run.errors.find("error: "), 0u) << run.errors;
    EXPECT_NE(run.errors.find("\ndo: "), std::string::npos) << run.errors;
    EXPECT_NE(run.errors.find(named), std::string::npos) << named << run.errors;
  }
  EXPECT_EQ(ReadJson(file).is_discarded(), true);  // untouched: still "x"
}

TEST(TierBench, ATierPlanPlansWithTheProfileThatItSaves) {
  const TemporaryDirectory directory;
  const std::string profile = directory.File("deep/er/profile.json");
  const Arguments environment = {"STRATA_PROFILE=" + profile};
  const ProgramRun saved =
      Bench(directory.File("drive"), {"--save_profile"}, environment);
  ASSERT_EQ(saved.exit_code, 0) << saved.errors;
  EXPECT_NE(saved.output.find(profile), std::string::npos) << saved.output;
  const double read = ReadJson(profile)["nvme_read_bytes_per_second"];
  EXPECT_GT(read, 0);
  const ProgramRun planned =
      RunProgram({TIERPLAN, "--model_name_or_path", "tinyllama-1.1b", "--device_memory",
                  "6GiB", "--host_memory", "64GiB"},
                 environment);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_NE(planned.output.find(profile), std::string::npos) << planned.output;
  EXPECT_EQ(planned.output.find("measured on"), std::string::npos) << planned.output;
}

TEST(TierBench, ATierPlanSaysThatAProfileIsAnotherMachines) {
  const TemporaryDirectory directory;
  const std::string profile = directory.File("profile.json");
  const Arguments environment = {"STRATA_PROFILE=" + profile};
  ASSERT_EQ(Bench(directory.File("drive"), {"--save_profile"}, environment).exit_code,
            0);
  Json json = ReadJson(profile);
  json["machine"] = "Another CPU, 3 cores";
  std::ofstream(profile) << json;
  const ProgramRun planned =
      RunProgram({TIERPLAN, "--model_name_or_path", "tinyllama-1.1b", "--device_memory",
                  "6GiB", "--host_memory", "64GiB"},
                 environment);
  ASSERT_EQ(planned.exit_code, 0) << planned.errors;
  EXPECT_NE(planned.output.find("measured on Another CPU, 3 cores"), std::string::npos)
      << planned.output;
}

/// Starts a program, waits for its first output, sends it a signal. Its exit code.
int RunAndInterrupt(Arguments arguments, int number) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  EXPECT_EQ(
      posix_spawn(&child, pointers[0], &actions, nullptr, pointers.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char first = 0;
  EXPECT_EQ(read(ends[0], &first, 1), 1);
  kill(child, number);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(TierBench, StopsAtASignalAndLeavesNothing) {
  const TemporaryDirectory directory;
  for (const int number : {SIGINT, SIGTERM}) {
    for (const char* op : {"mixed", "swap"}) {
      Arguments arguments = Small(directory.File("drive"), {"--op", op});
      arguments.insert(arguments.end(), {"--loops", "10000", "--total", "256MiB"});
      EXPECT_EQ(RunAndInterrupt(arguments, number), 130) << op;
      EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << op;
    }
  }
}

}  // namespace
}  // namespace strata
