/// The numerics profile tells runs apart exactly where their bits may differ.

#include "model/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/ops.h"

namespace strata {
namespace {

NumericsProfile Profile() {
  return {{{"weight", "BF16"}, {"threads", "4"}, {"driver", "13", false}}};
}

TEST(Numerics, TheHashIsThatOfWhatDecidesBitsInAnyOrder) {
  const NumericsProfile profile = Profile();
  NumericsProfile other = profile;
  std::reverse(other.entries.begin(), other.entries.end());
  EXPECT_EQ(other.Hash(), profile.Hash());
  other.entries[0].value = "14";  // the driver
  EXPECT_EQ(other.Hash(), profile.Hash());
  other.entries[1].value = "5";
  EXPECT_NE(other.Hash(), profile.Hash());
  EXPECT_EQ(profile.Hash().size(), 16u);
}

TEST(Numerics, DifferencesNameTheEntryAndBothValues) {
  NumericsProfile other = Profile();
  EXPECT_TRUE(CheckNumerics(Profile(), other, "x").ok());
  other.entries[1].value = "5";
  other.entries[2].value = "14";
  EXPECT_EQ(NumericsDifferences(Profile(), other),
            std::vector<std::string>{"threads is '4' there and '5' here"});
  // It is enough that it decides bits in one of the two.
  other.entries[1].decides_bits = false;
  EXPECT_EQ(NumericsDifferences(Profile(), other).size(), 1u);
  other.entries.erase(other.entries.begin());
  other.entries.push_back({"card", "H200"});
  const std::vector<std::string> differences = NumericsDifferences(Profile(), other);
  ASSERT_EQ(differences.size(), 3u);
  EXPECT_EQ(differences[0], "weight is 'BF16' there and missing here");
  EXPECT_EQ(differences[2], "card is missing there and 'H200' here");
  const absl::Status status = CheckNumerics(Profile(), other, "checkpoint-7");
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_NE(status.message().find("checkpoint-7"), std::string::npos);
}

TEST(Numerics, JsonKeepsAProfileAndNoticesAChange) {
  const std::string text = ToJson(Profile()).dump();
  const auto read = ParseNumerics(text, "file");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->entries, Profile().entries);
  for (const char* broken :
       {"", "[]", "{}", "{\"hash\": \"0\", \"decides\": {}, \"informs\": {}}",
        "{\"hash\": 0, \"decides\": {\"a\": 1}, \"informs\": {}}"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseNumerics(broken, "file").status()));
  }
}

TEST(Numerics, ThreadsOfTheCpuDecideBitsOnlyWhereTheyMay) {
  const auto kernels = CreateKernels(DeviceKind::kCpu, {.threads = 2});
  ASSERT_TRUE(kernels.ok());
  for (const NumericsEntry& entry : (*kernels)->Numerics(DType::kF32)) {
    EXPECT_EQ(entry.decides_bits, entry.name != "cpu.threads") << entry.name;
    EXPECT_FALSE(entry.value.empty()) << entry.name;
  }
}

}  // namespace
}  // namespace strata
