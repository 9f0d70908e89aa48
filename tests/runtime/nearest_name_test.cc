#include "runtime/base/nearest_name.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

const std::vector<std::string> kNames = {"max_steps", "max_seq_length", "bf16", "fp16"};

TEST(NearestName, FindsWhatAFewEditsMake) {
  EXPECT_EQ(NearestName("max_step", kNames), "max_steps");
  EXPECT_EQ(NearestName("maxsteps", kNames), "max_steps");
  EXPECT_EQ(NearestName("max_sequence_length", kNames), "max_seq_length");
  EXPECT_EQ(NearestName("bf16", kNames), "bf16");
}

TEST(NearestName, TakesTheFirstOfTwoThatAreEquallyNear) {
  EXPECT_EQ(NearestName("xf16", kNames), "bf16");
}

TEST(NearestName, FindsWhatContainsIt) {
  EXPECT_EQ(NearestName("seq_length", kNames), "max_seq_length");
  EXPECT_EQ(NearestName("step", kNames), std::nullopt);  // short parts are everywhere
}

TEST(NearestName, FindsNothingInWhatIsFar) {
  EXPECT_EQ(NearestName("zzz", kNames), std::nullopt);
  EXPECT_EQ(NearestName("bf16", std::vector<std::string>{}), std::nullopt);
}

}  // namespace
}  // namespace strata
