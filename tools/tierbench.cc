/// tierbench: how fast bytes move between the tiers here, and how fast they are
/// computed on.

#include <signal.h>

#include <cstdio>

#include "runtime/base/status.h"
#include "tools/cli/program.h"
#include "tools/tierbench/bench_command.h"
#include "tools/tierbench/bench_suite.h"

namespace strata {
namespace {

Stop g_stop;  // set by signals

void OnSignal(int) { g_stop.Ask(); }

void CatchSignals() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  for (const int number : {SIGINT, SIGTERM, SIGHUP})
    sigaction(number, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);  // a limit on file sizes is an error, not the end
}

absl::Status Finish(const BenchCommand& command, const BenchSuite& suite) {
  const bool is_quiet = command.json == "-";
  if (!is_quiet) {
    std::fputs(suite.text().c_str(), stdout);
    std::fputs(ChecksText(suite.report()).c_str(), stdout);
  }
  if (!command.json.empty()) {
    STRATA_RETURN_IF_ERROR(cli::WriteOutput(command.json, BenchJson(suite.report())));
  }
  if (!command.save_profile) return absl::OkStatus();
  STRATA_ASSIGN_OR_RETURN(const MachineProfile profile,
                          MakeProfile(suite.report(), suite.facts()));
  STRATA_ASSIGN_OR_RETURN(const std::string path, SaveProfile(profile));
  std::fprintf(is_quiet ? stderr : stdout,
               "saved %s: tierplan and tiertrain plan with it from now on\n",
               path.c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  BenchCommand command;
  command.typed.assign(argv, argv + argc);
  cli::Flags flags = BenchFlagTable(command);
  if (const auto exit = cli::ReadCommandLine(argc, argv, flags)) return *exit;
  if (const absl::Status status = command.Finish(); !status.ok()) {
    return cli::Refuse(status);
  }
  CatchSignals();
  const bool is_quiet = command.json == "-";
  BenchSuite suite(command, g_stop, [is_quiet](const std::string& text) {
    if (is_quiet) return;
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  });
  if (const absl::Status status = suite.Prepare(); !status.ok()) {
    return cli::Refuse(status);
  }
  if (!is_quiet) {
    std::printf("%s; device: %s\n", suite.facts().machine.c_str(),
                suite.facts().device.c_str());
    std::fflush(stdout);
  }
  absl::Status status = suite.Run();
  if (status.ok()) status = Finish(command, suite);
  if (absl::IsCancelled(status)) {
    std::fputs("interrupted; nothing of it is left\n", stderr);
    return cli::kInterrupted;
  }
  if (!status.ok()) {
    return suite.has_begun() ? cli::Fail(status) : cli::Refuse(status);
  }
  return suite.report().is_ok() ? cli::kDone : cli::kFailed;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc, argv); }
