/// tiertrain --generate: the tokens that transformers gives, wherever the weights rest.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/family_reference.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/run_program.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

std::string PromptLines(const std::vector<std::vector<int32_t>>& prompts) {
  std::string lines;
  for (const auto& prompt : prompts) {
    lines += nlohmann::json{{"input_ids", prompt}}.dump() + "\n";
  }
  return lines;
}

class Generation : public testing::Test {
 protected:
  void SetUp() override { Write(family_); }

  void Write(const Family& family) const {
    ASSERT_TRUE(
        WriteFixture(directory_.File("model"), family.config, family.config_json).ok());
    directory_.Write("prompts.jsonl", PromptLines(family.prompts));
  }

  ProgramRun Run(const std::vector<std::string>& flags) const {
    std::vector<std::string> arguments = {STRATA_TIERTRAIN,
                                          "--model_name_or_path",
                                          directory_.File("model"),
                                          "--generate",
                                          directory_.File("prompts.jsonl"),
                                          "--device=cpu",
                                          "--device_memory=64MiB",
                                          "--host_memory=64MiB"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return RunProgram(arguments, {});
  }

  /// The new tokens of each line of a run that must succeed.
  std::vector<std::vector<int32_t>> Tokens(
      const std::vector<std::string>& flags) const {
    const ProgramRun run = Run(flags);
    EXPECT_EQ(run.exit_code, 0) << run.errors;
    std::vector<std::vector<int32_t>> tokens;
    std::istringstream lines(run.output);
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line);
      tokens.push_back(json["output_ids"].get<std::vector<int32_t>>());
    }
    return tokens;
  }

  std::string Nvme() const {
    return "--nvme_path=" + directory_.File("swap") + ":64MiB";
  }

  const TemporaryDirectory directory_;
  const FamilyReference reference_ = ReadFamilyReference({});
  const Family& family_ = reference_.families.at("llama");
  const std::string count_ =
      "--max_new_tokens=" + std::to_string(reference_.options.max_new_tokens);
};

TEST_F(Generation, GivesTransformersTokensInEveryPlacement) {
  for (const std::string tier : {"device", "host", "nvme"}) {
    EXPECT_EQ(Tokens({count_, "--placement=weights=" + tier, Nvme()}),
              family_.continuations)
        << tier;
  }
}

TEST_F(Generation, GivesTransformersTokensForEveryFamily) {
  for (const auto& [name, family] : reference_.families) {
    Write(family);
    EXPECT_EQ(Tokens({count_}), family.continuations) << name;
  }
}

TEST_F(Generation, RepeatsThePromptsBesideTheNewTokens) {
  std::istringstream lines(Run({"--max_new_tokens=1"}).output);
  std::vector<std::vector<int32_t>> prompts;
  for (std::string line; std::getline(lines, line);) {
    prompts.push_back(nlohmann::json::parse(line)["input_ids"]);
  }
  EXPECT_EQ(prompts, family_.prompts);
}

TEST_F(Generation, DoesNotDependOnHowManyPromptsGoThroughAtOnce) {
  for (const std::string rows : {"1", "2", "5"}) {
    EXPECT_EQ(Tokens({count_, "--per_device_train_batch_size=" + rows}),
              family_.continuations)
        << rows;
  }
}

TEST_F(Generation, EndsAfterAnEndToken) {
  const int32_t end = family_.continuations[0][5];
  directory_.Write("model/generation_config.json",
                   nlohmann::json{{"eos_token_id", {end, 1000}}}.dump());
  const auto tokens = Tokens({count_});
  ASSERT_EQ(tokens.size(), family_.continuations.size());
  for (size_t p = 0; p < tokens.size(); ++p) {
    const std::vector<int32_t>& whole = family_.continuations[p];
    const auto at = std::find(whole.begin(), whole.end(), end);
    const auto expected_end = at == whole.end() ? at : at + 1;
    EXPECT_EQ(tokens[p], std::vector<int32_t>(whole.begin(), expected_end)) << p;
  }
}

TEST_F(Generation, DrawsByTheSeedWhateverTheBatch) {
  const std::vector<std::string> warm = {count_, "--temperature=1"};
  auto flags = [&warm](std::vector<std::string> more) {
    more.insert(more.end(), warm.begin(), warm.end());
    return more;
  };
  const auto first = Tokens(flags({"--seed=1"}));
  EXPECT_EQ(Tokens(flags({"--seed=1", "--per_device_train_batch_size=2"})), first);
  EXPECT_NE(Tokens(flags({"--seed=2"})), first);
  EXPECT_NE(first, family_.continuations);
}

TEST_F(Generation, ALowTemperatureIsGreedy) {
  EXPECT_EQ(Tokens({count_, "--temperature=1e-6"}), family_.continuations);
}

TEST_F(Generation, LeavesNothingBehind) {
  Tokens({"--max_new_tokens=2", "--placement=weights=nvme", Nvme()});
  EXPECT_FALSE(std::filesystem::exists(directory_.File("swap")));
}

TEST_F(Generation, RefusesByNameWhatItCannotContinue) {
  const struct {
    std::string prompts;
    std::vector<std::string> flags, named;
  } cases[] = {
      {"", {}, {"--generate", "no prompt"}},
      {"{\"input_ids\": []}\n", {}, {"prompts.jsonl:1", "empty"}},
      {"{\"input_ids\": [1]}\n{\"input_ids\": [67]}\n",
       {},
       {"prompts.jsonl:2", "token 67", "67"}},
      {"{\"input_ids\": [1, 2, 3]}\n",
       {"--max_new_tokens=254"},
       {"3 tokens", "254", "max_position_embeddings, 256", "--max_new_tokens"}},
      {"{\"input_ids\": [1]}\n",
       {"--synthetic_data"},
       {"--synthetic_data", "--generate"}},
      {"{\"input_ids\": [1]}\n", {"--output_dir=x"}, {"--output_dir", "--generate"}},
      {"{\"input_ids\": [1]}\n",
       {"--device_memory=1KiB"},
       {"--device_memory", "1024 B"}},
  };
  for (const auto& refused : cases) {
    directory_.Write("prompts.jsonl", refused.prompts);
    const ProgramRun run = Run(refused.flags);
    EXPECT_EQ(run.exit_code, 2) << refused.prompts;
    EXPECT_EQ(run.output, "");
    for (const std::string& name : refused.named) {
      EXPECT_NE(run.errors.find(name), std::string::npos) << name << "\n" << run.errors;
    }
  }
}

}  // namespace
}  // namespace strata
