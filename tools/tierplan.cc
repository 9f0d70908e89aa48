/// tierplan: will it fit, where does everything rest, and how long does a step take.

#include <cstdio>
#include <vector>

#include "runtime/base/status.h"
#include "tools/cli/program.h"
#include "tools/tierplan/plan_command.h"
#include "tools/tierplan/plan_question.h"
#include "tools/tierplan/plan_report.h"

namespace strata {
namespace {

constexpr int kDoesNotFit = 3;

/// Sizes that cards have.
constexpr int64_t kSweepGiB[] = {6, 8, 12, 16, 24, 32, 48, 80, 139};

std::vector<SweepRow> Sweep(PlanQuestion question) {
  std::vector<SweepRow> rows;
  for (const int64_t size : kSweepGiB) {
    question.budgets.device_bytes = size * kGiB;
    SweepRow row{.device_bytes = size * kGiB};
    if (const auto planned = Answer(question); planned.ok()) {
      row.fits = true;
      row.step_seconds = planned->forecast.seconds;
      row.arenas = planned->set.arena_bytes;
    }
    rows.push_back(row);
  }
  return rows;
}

int Main(int argc, char** argv) {
  PlanCommand command;
  cli::Flags flags = PlanFlagTable(command);
  if (const auto exit = cli::ReadCommandLine(argc, argv, flags)) return *exit;
  if (const absl::Status status = command.Finish(); !status.ok()) {
    return cli::Refuse(status);
  }
  const absl::StatusOr<PlanQuestion> question = MakeQuestion(command);
  if (!question.ok()) return cli::Refuse(question.status());
  const absl::StatusOr<PlannedStep> planned = Answer(*question);
  const bool fits = planned.ok();
  if (!fits && !absl::IsResourceExhausted(planned.status())) {
    return cli::Refuse(planned.status());
  }
  const std::vector<SweepRow> sweep =
      command.sweep ? Sweep(*question) : std::vector<SweepRow>();
  if (command.json != "-") {
    std::fputs(PlanText(*question, planned, sweep).c_str(), stdout);
    std::fflush(stdout);
  }
  if (!command.json.empty()) {
    const absl::Status status =
        cli::WriteOutput(command.json, PlanJson(*question, planned, sweep));
    if (!status.ok()) return cli::Fail(status);
  }
  if (fits) return cli::kDone;
  std::fputs(cli::ErrorText(planned.status()).c_str(), stderr);
  return kDoesNotFit;
}

}  // namespace
}  // namespace strata

int main(int argc, char** argv) { return strata::Main(argc, argv); }
