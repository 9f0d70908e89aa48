#include "runtime/base/size.h"

#include <gtest/gtest.h>

#include "runtime/base/types.h"

namespace strata {
namespace {

TEST(ParseSize, DecimalAndBinaryUnitsDiffer) {
  EXPECT_EQ(*ParseSize("24GiB"), 24 * kGiB);
  EXPECT_EQ(*ParseSize("24G"), 24'000'000'000);
  EXPECT_EQ(*ParseSize("24 GB"), 24'000'000'000);
  EXPECT_EQ(*ParseSize("1.5KiB"), 1536);
  EXPECT_EQ(*ParseSize("4096"), 4096);
}

TEST(ParseSize, RefusesWhatIsNoSizeAndNamesIt) {
  for (const char* text : {"", "GiB", "-1G", "1.2.3", "5 apples", "99999999999T", "nan"}) {
    const auto size = ParseSize(text);
    ASSERT_FALSE(size.ok()) << text;
    EXPECT_NE(size.status().message().find(text), absl::string_view::npos);
  }
}

TEST(FormatSize, UsesBinaryUnits) {
  EXPECT_EQ(FormatSize(24 * kGiB), "24.00 GiB");
  EXPECT_EQ(FormatSize(100), "100 B");
}

}  // namespace
}  // namespace strata
