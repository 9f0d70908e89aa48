/// Law 1 in few runs: of all settings, I/O backends included, rows in which each pair
/// of levels occurs. For sanitizers, and for a model whose layers are cut in slices.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/backends.h"
#include "tests/support/exact_runs.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/placement_matrix.h"
#include "tests/support/temp_directory.h"
#include "tiers/nvme_store.h"

namespace strata {
namespace {

constexpr size_t kBackend = kFactorCount;

std::vector<LevelRow> Rows(size_t backends) {
  std::vector<int> levels(std::begin(kLevels), std::end(kLevels));
  levels.push_back(static_cast<int>(backends));
  return PairwiseRows(AllRows(levels, IsTraining));
}

void ExpectPairwiseExact(const TransformerConfig& config, double max_grad_norm) {
  const std::vector<IoBackend> backends = WorkingBackends();
  const TempDirectory directory;
  ExpectedTraces expected;
  for (const LevelRow& row : Rows(backends.size())) {
    SCOPED_TRACE(Describe(row) + ", " + Name(backends[row[kBackend]]));
    const Scenario scenario = ScenarioOf(row, config, max_grad_norm);
    TrainerOptions options = OptionsOf(row, scenario);
    options.make_store =
        [&](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
      return NvmeStore::Create({.directories = {{directory.path()}},
                                .capacity_bytes = needs.capacity_bytes,
                                .extent_count_max = needs.extent_count,
                                .requests_in_flight_max = needs.requests_in_flight,
                                .io_backend = backends[row[kBackend]]});
    };
    ExpectEqual(expected.Of(row, scenario),
                RunTiered(MakeToyTrainer(scenario, std::move(options)), scenario,
                          kShortRunSteps));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ExactnessPairwise, RowsHaveEveryPairOfLevelsThatTrainingsHave) {
  const std::vector<LevelRow> rows = Rows(3);
  EXPECT_LT(rows.size(), 40u);
  std::vector<int> levels(std::begin(kLevels), std::end(kLevels));
  levels.push_back(3);
  for (size_t a = 0; a < levels.size(); ++a) {
    for (size_t b = a + 1; b < levels.size(); ++b) {
      for (int pair = 0; pair < levels[a] * levels[b]; ++pair) {
        const auto has_it = [&](const LevelRow& row) {
          return row[a] == pair % levels[a] && row[b] == pair / levels[a];
        };
        const bool wanted = !AllRows(levels, [&](const LevelRow& row) {
                               return has_it(row) && IsTraining(row);
                             }).empty();
        EXPECT_EQ(std::any_of(rows.begin(), rows.end(), has_it), wanted)
            << "factors " << a << " and " << b << ", pair " << pair;
      }
    }
  }
}

TEST(ExactnessPairwise, NoSettingChangesABitOfTheFixture) {
  ExpectPairwiseExact(FixtureT0(), 2.25);
}

TEST(ExactnessPairwise, NoSettingChangesABitOfAModelOfWidth256) {
  ExpectPairwiseExact({.vocab = 131,
                       .hidden = 256,
                       .intermediate = 256,
                       .layers = 2,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = 64,
                       .max_position = 64},
                      11.0);
}

}  // namespace
}  // namespace strata
