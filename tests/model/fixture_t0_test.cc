#include "tests/support/fixture_t0.h"

#include <gtest/gtest.h>

#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/stored_floats.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

TEST(FixtureT0, ValuesAreThoseOfTheRecipe) {
  const std::vector<float> embedding = FixtureTensor(TensorsOf(FixtureT0()).front());
  EXPECT_FLOAT_EQ(embedding[0], 0.24700631f);
  EXPECT_FLOAT_EQ(embedding[1], -0.22898948f);
  EXPECT_FLOAT_EQ(embedding[2], 0.16436785f);
  EXPECT_EQ(FixtureSequence(0, 8, 67),
            (std::vector<int32_t>{60, 46, 25, 16, 38, 45, 23, 36}));
  EXPECT_EQ(FixtureSequence(1, 8, 67),
            (std::vector<int32_t>{23, 57, 15, 29, 11, 27, 6, 53}));
}

TEST(FixtureT0, LoadsAsTheModelItWasWrittenFrom) {
  TransformerConfig config = FixtureT0();
  config.tied = true;
  config.head_dim = 16;
  config.rope = {.theta = 500000,
                 .type = RopeType::kLlama3,
                 .factor = 8,
                 .low_freq_factor = 1,
                 .high_freq_factor = 4,
                 .original_max_position = 32};
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (int shards : {1, 3}) {
      config.dtype = dtype;
      const TemporaryDirectory directory;
      ASSERT_TRUE(WriteFixture(directory.path(), config, shards).ok());
      const auto loaded = LoadHfConfig(directory.path());
      ASSERT_TRUE(loaded.ok()) << loaded.status();
      EXPECT_EQ(loaded->shape, config);
      const auto checkpoint = HfCheckpoint::Open(directory.path());
      ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
      EXPECT_TRUE((*checkpoint)->Verify(config).ok());
      EXPECT_TRUE((*checkpoint)->warnings().empty());
    }
  }
}

}  // namespace
}  // namespace strata
