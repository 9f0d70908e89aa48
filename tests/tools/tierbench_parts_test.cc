/// The parts of tierbench that decide: which point is best, where a rate falls, what
/// fio said.
#include <gtest/gtest.h>

#include "tools/tierbench/fio.h"
#include "tools/tierbench/sustained.h"
#include "tools/tierbench/sweep.h"

namespace strata {
namespace {

SweepPoint Point(int64_t window, double read, double write) {
  return {.chunk_bytes = kMiB, .window_bytes = window, .read = read, .write = write};
}

TEST(ChoosePoint, TakesTheFastestInBothDirections) {
  const SweepPoint chosen = ChoosePoint(
      {Point(1, 100, 20), Point(2, 80, 80), Point(3, 20, 100), Point(4, 60, 60)});
  EXPECT_EQ(chosen.window_bytes, 2);
}

TEST(ChoosePoint, TakesTheSmallestWindowOfEqualOnes) {
  EXPECT_EQ(ChoosePoint({Point(8, 100, 100), Point(4, 99, 99), Point(2, 90, 90)})
                .window_bytes,
            4);
}

TEST(SweepPoints, FitTheWindowThatTheyAreMeasuredIn) {
  for (const SweepKind kind : {SweepKind::kQuick, SweepKind::kFull}) {
    for (const SweepPoint& point : SweepPoints(kind)) {
      EXPECT_LE(point.chunk_bytes, point.window_bytes);
      EXPECT_LE(point.window_bytes, kSweepWindowBytes);
    }
  }
  EXPECT_EQ(SweepPoints(SweepKind::kQuick).size(), 11u);
  EXPECT_EQ(SweepPoints(SweepKind::kFull).size(), 78u);
}

TEST(FindCliff, FindsWhereTheRateFallsForGood) {
  const std::vector<double> rates = {10, 10, 10, 10, 10, 2, 2, 2, 2};
  const Cliff cliff = FindCliff(rates);
  ASSERT_TRUE(cliff.is_found);
  EXPECT_DOUBLE_EQ(cliff.at_bytes, 50);
  EXPECT_DOUBLE_EQ(cliff.before, 10);
  EXPECT_DOUBLE_EQ(cliff.after, 2);
}

TEST(FindCliff, FindsNoneInNoiseDipsOrAShortRun) {
  for (const std::vector<double>& rates :
       {std::vector<double>{10, 9, 11, 8, 12, 9, 10, 8},
        {10, 10, 1, 1, 10, 10, 10, 10},
        {10, 2},
        {}}) {
    EXPECT_FALSE(FindCliff(rates).is_found);
  }
}

TEST(ParseSustained, TellsSecondsFromBytes) {
  EXPECT_EQ(ParseSustained("600")->seconds, 600);
  EXPECT_EQ(ParseSustained("600s")->seconds, 600);
  EXPECT_EQ(ParseSustained("200GB")->bytes, 200'000'000'000);
  EXPECT_EQ(ParseSustained("200GB")->seconds, 0);
  for (const char* text : {"", "s", "0", "-1", "1e9", "0GB", "soon"}) {
    EXPECT_FALSE(ParseSustained(text).ok()) << text;
  }
}

TEST(Fio, ReadsItsAnswerAfterAnyWarnings) {
  const auto result = ParseFioJson(
      R"(fio: a warning
{"jobs":[{"error":0,"usr_cpu":5,"sys_cpu":5,
"write":{"io_bytes":2147483648,"bw_bytes":123,"runtime":2000}}]})",
      DiskOp::kWrite);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->bytes_per_second, 123);
  EXPECT_DOUBLE_EQ(result->cpu_seconds_per_gib, 0.1);
}

TEST(Fio, TakesNothingForAnAnswerThatIsNone) {
  for (const char* text :
       {"", "{", "[]", "{}", R"({"jobs":[]})", R"({"jobs":[1]})", R"({"jobs":[{}]})",
        R"({"jobs":[{"read":{}}]})", R"({"jobs":[{"read":{"bw_bytes":"x"}}]})",
        R"({"jobs":[{"error":28,"read":{"bw_bytes":1,"io_bytes":1}}]})"}) {
    EXPECT_FALSE(ParseFioJson(text, DiskOp::kRead).ok()) << text;
  }
}

}  // namespace
}  // namespace strata
