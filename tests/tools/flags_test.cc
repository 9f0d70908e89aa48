#include "tools/cli/flags.h"

#include <gtest/gtest.h>

#include "runtime/base/status.h"
#include "tools/cli/program.h"

namespace strata::cli {
namespace {

struct Options {
  bool bf16 = false;
  bool shuffle = true;
  int64_t steps = 10;
  std::optional<double> rate;
  std::optional<Size> memory;
  std::string name = "x";
  std::vector<std::string> files;
  std::string device = "auto";
};

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() : flags_("tiertest", "Tests flags.", {"tiertest --bf16"}) {
    flags_.BeginGroup("Training");
    flags_.Add("bf16", &options_.bf16, {.help = "bfloat16"});
    flags_.Add("shuffle", &options_.shuffle, {.help = "by seed"});
    flags_.Add("max_steps", &options_.steps,
               {.value = "N", .help = "steps", .least = 1});
    flags_.Add("learning_rate", &options_.rate,
               {.value = "F", .help = "rate", .absent = "5e-5"});
    flags_.BeginGroup("Tiers");
    flags_.Add("device_memory", &options_.memory, {.value = "SIZE", .help = "bytes"});
    flags_.Add("name", &options_.name, {.value = "S", .help = "name"});
    flags_.Add("train_file", &options_.files, {.value = "F", .help = "repeatable"});
    flags_.Add("device", &options_.device,
               {.value = "D", .help = "where", .choices = {"cpu", "cuda", "auto"}});
  }

  absl::Status Parse(std::vector<const char*> arguments) {
    return flags_.Parse(arguments);
  }

  Options options_;
  Flags flags_;
};

TEST_F(FlagsTest, ValuesFollowAnEqualsSignOrStandNext) {
  ASSERT_TRUE(Parse({"--max_steps=3", "--learning_rate", "1e-4", "--device_memory",
                     "1.5GiB", "--name=", "--train_file", "a", "--train_file=b"})
                  .ok());
  EXPECT_EQ(options_.steps, 3);
  EXPECT_EQ(options_.rate, 1e-4);
  EXPECT_EQ(options_.memory->bytes, 1610612736);
  EXPECT_EQ(options_.name, "");
  EXPECT_EQ(options_.files, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(flags_.IsGiven("max_steps"));
  EXPECT_FALSE(flags_.IsGiven("bf16"));
}

TEST_F(FlagsTest, ASwitchTakesAnOptionalValue) {
  ASSERT_TRUE(Parse({"--bf16", "--shuffle", "False", "--max_steps", "2"}).ok());
  EXPECT_TRUE(options_.bf16);
  EXPECT_FALSE(options_.shuffle);
  EXPECT_EQ(options_.steps, 2);
  ASSERT_TRUE(Parse({"--bf16=false", "--shuffle", "true"}).ok());
  EXPECT_FALSE(options_.bf16);
  EXPECT_TRUE(options_.shuffle);
}

TEST_F(FlagsTest, DashesStandForUnderscoresAndTheLastValueCounts) {
  ASSERT_TRUE(Parse({"--max-steps", "4", "--max_steps=5"}).ok());
  EXPECT_EQ(options_.steps, 5);
}

TEST_F(FlagsTest, AMisspeltFlagIsRefusedWithTheNearestOne) {
  const absl::Status status = Parse({"--max_step", "3"});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrorText(status),
            "error: unknown flag --max_step\n"
            "do: did you mean --max_steps? tiertest --help lists all flags\n");
  EXPECT_EQ(ErrorText(Parse({"--zzzzzzzz"})),
            "error: unknown flag --zzzzzzzz\ndo: tiertest --help lists all flags\n");
}

TEST_F(FlagsTest, AWrongValueIsRefusedWithFlagAndText) {
  for (const auto& [arguments, named] :
       std::vector<std::pair<std::vector<const char*>, const char*>>{
           {{"--max_steps", "many"}, "--max_steps: 'many' is not a whole number"},
           {{"--max_steps", "1.5"}, "--max_steps: '1.5' is not a whole number"},
           {{"--max_steps", "0"}, "--max_steps is 0"},
           {{"--max_steps", "-5"}, "--max_steps is -5"},
           {{"--max_steps"}, "--max_steps needs a value"},
           {{"--max_steps", "--bf16"}, "--max_steps needs a value"},
           {{"--learning_rate", "nan"}, "--learning_rate: 'nan' is not a number"},
           {{"--device_memory", "24Gib2"}, "'24Gib2' is not a size"},
           {{"--device_memory", "-1"}, "'-1' is not a size"},
           {{"--bf16=maybe"}, "--bf16: 'maybe' is not true or false"},
           {{"--device", "tpu"}, "--device is 'tpu'"},
           {{"model"}, "'model' belongs to no flag"},
           {{"--bf16", "model"}, "--bf16"},
       }) {
    const absl::Status status = Parse(arguments);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << named;
    EXPECT_NE(status.message().find(named), absl::string_view::npos) << status;
    EXPECT_NE(MendOf(status), "") << named;
  }
}

TEST_F(FlagsTest, HelpNamesGroupsFlagsDefaultsAndIsNotWiderThanItsColumns) {
  ASSERT_TRUE(Parse({"--nonsense", "--help"}).ok());
  EXPECT_TRUE(flags_.wants_help());
  const std::string help = flags_.Help();
  for (const char* part : {"usage: tiertest", "\nTraining\n", "\nTiers\n",
                           "--max_steps N", "(default: 10)", "(default: 5e-5)",
                           "(default: true)", "--version", "tiertest --bf16"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part;
  }
  size_t line_start = 0;
  while (line_start < help.size()) {
    const size_t line_end = help.find('\n', line_start);
    EXPECT_LE(line_end - line_start, 88u) << help.substr(line_start, 100);
    line_start = line_end + 1;
  }
}

TEST(ErrorText, IsOneLineOfWhatAndOneOfWhatToDo) {
  EXPECT_EQ(ErrorText(WithMend(absl::InternalError("a\nb"), "do\nthis")),
            "error: a b\ndo: do this\n");
  const std::string text = ErrorText(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(text.substr(0, 17), "error: full\ndo: f");
}

}  // namespace
}  // namespace strata::cli
