/// Law 1 as a table: every placement with every depth of prefetch, segment, number of
/// groups, way to update, budget and clipping, in process and on the tiny fixture, each
/// compared bit for bit with the serial trainer.

#include <gtest/gtest.h>

#include "tests/support/exact_runs.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/placement_matrix.h"

namespace strata {
namespace {

// A row of all factors but the dtype, and the dtype that the sum of its levels picks:
// every combination of all but any one of the others occurs in both.
std::vector<LevelRow> MatrixRows() {
  return AllRows({std::begin(kLevels), std::end(kLevels)}, [](const LevelRow& row) {
    int sum = 0;
    for (const int level : row) sum += level;
    // A placement that is pinned leaves no choice for a budget between.
    const bool has_budget = row[kBudget] != 1 || row[kPlacement] == 4;
    return IsTraining(row) && has_budget && sum % 2 == 0;
  });
}

TEST(ExactnessMatrix, NoSettingChangesABitOfTheFixture) {
  const std::vector<LevelRow> rows = MatrixRows();
  EXPECT_GT(rows.size(), 800u);
  EXPECT_LE(rows.size(), 1500u);
  ExpectedTraces expected;
  for (const LevelRow& row : rows) {
    SCOPED_TRACE(Describe(row));
    const Scenario scenario = ScenarioOf(row, FixtureT0(), 2.25);
    const Trace& serial = expected.Of(row, scenario);
    EXPECT_EQ(serial.skipped > 1, row[kUpdate] != 2);
    if (row[kClipping] == 1) {
      EXPECT_GT(serial.clipped, 0);
      EXPECT_LT(serial.clipped, kShortRunSteps - 2);
    }
    ExpectEqual(serial, RunTiered(MakeToyTrainer(scenario, OptionsOf(row, scenario)),
                                  scenario, kShortRunSteps));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata
