/// tierinfo: what this machine offers each tier, what limits it, and what mends that.

#include <sys/stat.h>

#include <cstdio>

#include "runtime/base/status.h"
#include "tools/cli/flags.h"
#include "tools/cli/program.h"
#include "tools/machine/machine_report.h"

namespace strata {
namespace {

struct Options {
  std::vector<std::string> nvme_paths;
  std::string json;
};

cli::Flags DeclareFlags(Options& options) {
  cli::Flags flags(
      "tierinfo",
      "Says what this machine offers each tier (device, host memory, NVMe), "
      "what was tried and what it answered, what limits it, and the command "
      "that mends it. Changes nothing.",
      {"tierinfo --nvme_path /mnt/nvme", "tierinfo --json info.json"});
  flags.BeginGroup("What to look at");
  flags.Add("nvme_path", &options.nvme_paths,
            {.value = "DIR",
             .help = "directory in which to try the I/O backends with one page; "
                     "repeatable",
             .absent = "the current directory"});
  flags.BeginGroup("Output");
  flags.Add("json", &options.json,
            {.value = "F",
             .help = "write the findings to this file as JSON; - prints "
                     "them in place of the text"});
  return flags;
}

/// A path that is there and is no directory is a mistake of the command line.
absl::Status CheckPaths(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    struct stat found;
    const bool is_there = stat(path.c_str(), &found) == 0;
    if (path.empty() || (is_there && !S_ISDIR(found.st_mode))) {
      return WithMend(
          absl::InvalidArgumentError("--nvme_path '" + path + "' is not a directory"),
          "give it a directory on the drive that is to hold the NVMe tier");
    }
  }
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  Options options;
  cli::Flags flags = DeclareFlags(options);
  if (const auto exit = cli::ReadCommandLine(argc, argv, flags)) return *exit;
  if (const absl::Status status = CheckPaths(options.nvme_paths); !status.ok()) {
    return cli::Refuse(status);
  }
  if (options.nvme_paths.empty()) options.nvme_paths = {"."};
  const SystemView system = SystemView::OfThisMachine();
  const std::vector<Section> sections = {ProbeMachine(system), ProbeDevice(system),
                                         ProbeHost(system),
                                         ProbeNvme(system, options.nvme_paths)};
  if (options.json != "-") std::fputs(ReportText(sections).c_str(), stdout);
  if (!options.json.empty()) {
    const absl::Status status = cli::WriteOutput(options.json, ReportJson(sections));
    if (!status.ok()) return cli::Fail(status);
  }
  return cli::kDone;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc, argv); }
