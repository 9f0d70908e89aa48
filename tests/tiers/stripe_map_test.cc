#include "tiers/stripe_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

namespace strata {
namespace {

constexpr int64_t kCell = 8192;

TEST(StripeMap, SpreadsNeighbouringCellsOverAllDirectories) {
  const std::vector<int64_t> limits(3, INT64_MAX);
  const auto map = StripeMap::Create(10 * kCell, kCell, limits);
  ASSERT_TRUE(map.ok());
  for (int cell = 0; cell < 10; ++cell) {
    const StripeMap::Place place = map->At(cell * kCell + 4096);
    EXPECT_EQ(place.directory, cell % 3);
    EXPECT_EQ(place.file_offset, cell / 3 * kCell + 4096);
    EXPECT_EQ(place.size_bytes, kCell - 4096);
  }
  EXPECT_EQ(map->file_bytes(0), 4 * kCell);
  EXPECT_EQ(map->file_bytes(2), 3 * kCell);
}

TEST(StripeMap, GivesEachCellItsOwnPlaceWithinTheFilesAndTheLimits) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> limits(1 + random() % 6);
    for (int64_t& limit : limits) limit = static_cast<int64_t>(random() % (20 * kCell));
    int64_t room = 0;
    for (const int64_t limit : limits) room += limit / kCell;
    if (room == 0) continue;
    const int64_t cells = 1 + static_cast<int64_t>(random() % room);
    const auto map = StripeMap::Create(cells * kCell - 4096, kCell, limits);
    ASSERT_TRUE(map.ok()) << map.status();
    std::set<std::pair<int, int64_t>> places;
    for (int64_t cell = 0; cell < cells; ++cell) {
      const StripeMap::Place place = map->At(cell * kCell);
      EXPECT_EQ(place.file_offset % kCell, 0);
      EXPECT_LE(place.file_offset + kCell, map->file_bytes(place.directory));
      EXPECT_TRUE(places.emplace(place.directory, place.file_offset).second);
    }
    int64_t sum = 0;
    for (size_t d = 0; d < limits.size(); ++d) {
      EXPECT_LE(map->file_bytes(static_cast<int>(d)), limits[d]);
      sum += map->file_bytes(static_cast<int>(d));
    }
    EXPECT_EQ(sum, cells * kCell);
    const auto refused = StripeMap::Create((room + 1) * kCell, kCell, limits);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace strata
