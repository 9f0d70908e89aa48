#include "tools/tierbench/fio.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/strip.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "runtime/base/size.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"
#include "tiers/file_descriptor.h"

extern char** environ;

namespace strata {
namespace {

using Json = nlohmann::json;

absl::Status NoFio() {
  return WithMend(absl::UnavailableError("--compare fio: there is no fio in PATH"),
                  "install it (Debian: apt-get install fio) or leave --compare out");
}

struct Output {
  int exit_code = -1;
  std::string text;
};

/// Runs fio and reads its standard output; ends it when `stop` is asked for.
absl::StatusOr<Output> Spawn(std::vector<std::string> arguments, const Stop& stop) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return IoError(errno, "pipe");
  const FileDescriptor reader(ends[0]);
  FileDescriptor writer(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, writer.get(), 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, "fio", &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT) return NoFio();
  if (error != 0) return IoError(error, "start fio");
  writer = FileDescriptor();
  Output output;
  char buffer[4096];
  while (true) {
    if (stop.asked()) kill(child, SIGTERM);
    const ssize_t count = read(reader.get(), buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    output.text.append(buffer, static_cast<size_t>(count));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  STRATA_RETURN_IF_ERROR(stop.status());
  // A shell's "command not found" where posix_spawn could not tell.
  if (output.exit_code == 127 && output.text.empty()) return NoFio();
  return output;
}

double Number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

std::string FioJob::description() const {
  return absl::StrCat(FormatSize(block_bytes), " x ", depth,
                      uses_huge_pages ? ", huge pages" : ", 4k pages");
}

absl::StatusOr<std::string> FioVersion(const Stop& stop) {
  STRATA_ASSIGN_OR_RETURN(const Output output, Spawn({"fio", "--version"}, stop));
  if (output.exit_code != 0) return NoFio();
  return std::string(absl::StripSuffix(output.text, "\n"));
}

std::vector<std::string> FioArguments(
    std::span<const std::unique_ptr<DriveFile>> drives, const FioJob& job) {
  std::vector<std::string> arguments = {
      "--output-format=json",
      "--thread",
      "--ioengine=io_uring",
      "--direct=1",
      "--fixedbufs=1",
      "--registerfiles=1",
      "--overwrite=1",
      "--fallocate=none",
      "--allow_file_create=0",
      "--time_based",
      "--ramp_time=200ms",
      "--group_reporting",
      absl::StrFormat("--runtime=%dms", static_cast<int>(job.seconds * 1e3)),
      absl::StrCat("--rw=", job.op == DiskOp::kRead ? "read" : "write"),
      absl::StrCat("--bs=", job.block_bytes),
      absl::StrCat("--iodepth=", job.depth)};
  if (job.uses_huge_pages) arguments.push_back("--mem=mmaphuge");
  for (const std::unique_ptr<DriveFile>& drive : drives) {
    arguments.push_back("--name=drive");
    arguments.push_back(absl::StrCat(
        "--filename=", absl::StrReplaceAll(drive->path(), {{":", "\\:"}})));
    const int64_t size = drive->data_bytes() / job.block_bytes * job.block_bytes;
    arguments.push_back(absl::StrCat("--size=", size));
  }
  return arguments;
}

absl::StatusOr<FioResult> ParseFioJson(const std::string& text, DiskOp op) {
  // Warnings may stand before the JSON.
  const size_t begin = text.find('{');
  const Json json =
      Json::parse(begin == std::string::npos ? "" : text.substr(begin), nullptr, false);
  if (!json.is_object() || !json.contains("jobs") || !json["jobs"].is_array() ||
      json["jobs"].empty() || !json["jobs"][0].is_object()) {
    return absl::DataLossError("fio did not answer with its JSON");
  }
  const Json& job = json["jobs"][0];
  if (const double error = Number(job, "error"); error != 0) {
    return absl::InternalError(
        absl::StrCat("fio failed with error ", static_cast<int>(error)));
  }
  const char* const side = op == DiskOp::kRead ? "read" : "write";
  if (!job.contains(side) || !job[side].is_object()) {
    return absl::DataLossError(absl::StrCat("fio's JSON has no '", side, "'"));
  }
  const double bytes = Number(job[side], "io_bytes");
  const double seconds = Number(job[side], "runtime") / 1e3;
  FioResult result{.bytes_per_second = Number(job[side], "bw_bytes")};
  if (result.bytes_per_second <= 0 || bytes <= 0) {
    return absl::DataLossError("fio moved no bytes");
  }
  const double share = (Number(job, "usr_cpu") + Number(job, "sys_cpu")) / 100;
  result.cpu_seconds_per_gib = share * seconds / (bytes / static_cast<double>(kGiB));
  return result;
}

absl::StatusOr<FioResult> RunFio(std::span<const std::unique_ptr<DriveFile>> drives,
                                 const FioJob& job, const Stop& stop) {
  std::vector<std::string> arguments = FioArguments(drives, job);
  arguments.insert(arguments.begin(), "fio");
  STRATA_ASSIGN_OR_RETURN(const Output output, Spawn(std::move(arguments), stop));
  return ParseFioJson(output.text, job.op);
}

}  // namespace strata
