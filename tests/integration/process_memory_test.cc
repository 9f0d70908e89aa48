/// Law 5 from outside: what the whole process holds at most is what the plan said,
/// within 64 MiB, and its arenas are the plan's to the byte.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "runtime/base/size.h"
#include "tests/support/tiertrain_run.h"

namespace strata {
namespace {

/// 27 million parameters, so that a copy of any kind of state would show.
TransformerConfig Shape() {
  return {.vocab = 8192,
          .hidden = 512,
          .intermediate = 1536,
          .layers = 6,
          .heads = 8,
          .kv_heads = 4,
          .head_dim = 64,
          .max_position = 64};
}

class ProcessMemory : public testing::TestWithParam<const char*> {};

TEST_P(ProcessMemory, IsWhatThePlanSays) {
  for (const bool bf16 : {false, true}) {
    SCOPED_TRACE(bf16);
    const TiertrainRun run(Shape());
    RunRequest request{.rows = Sequences(0, 4, 64), .flags = "--max_steps 2 "};
    request.flags += GetParam();
    request.flags += " --nvme_path " + run.directory().File("swap") + ":2GiB";
    request.deepspeed["gradient_accumulation_steps"] = 2;
    request.deepspeed["gradient_clipping"] = 1.0;
    if (bf16) request.deepspeed["bf16"] = {{"enabled", true}};
    const RunOutcome outcome = run.Run(request);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    std::ifstream file(run.output() + "/report.json");
    const auto report = nlohmann::json::parse(file);
    const auto& plan = report["plan"];
    EXPECT_EQ(report["measured"]["peak_bytes"], plan["peak_bytes"]);
    const double planned = plan["process_peak_bytes"]["host"];
    const double slack = std::max(0.01 * planned, 64.0 * kMiB);
    EXPECT_NEAR(report["measured"]["process_peak_bytes"]["host"].get<double>(), planned,
                slack);
    EXPECT_NEAR(static_cast<double>(outcome.peak_resident_bytes), planned, slack);
    // The tiers' budgets are kept by the arenas, which are most of the process.
    EXPECT_GT(plan["peak_bytes"]["device"].get<double>() +
                  plan["peak_bytes"]["host"].get<double>(),
              planned - 64.0 * kMiB);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Budgets, ProcessMemory,
    testing::Values("--device_memory 1GiB --host_memory 1GiB",
                    "--device_memory 200MiB --host_memory 1GiB",
                    "--device_memory 150MiB --host_memory 200MiB"));

}  // namespace
}  // namespace strata
