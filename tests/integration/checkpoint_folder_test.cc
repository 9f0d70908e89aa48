/// A folder of checkpoints always has a complete one, and damage is found, named and
/// passed over.

#include "model/checkpoint_folder.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/checkpoint_state.h"
#include "tests/support/checkpoints.h"
#include "tests/support/temp_directory.h"
#include "tests/support/toy_run.h"

namespace strata {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

/// A trainer, and a folder of its checkpoints.
class CheckpointFolderTest : public testing::Test {
 protected:
  CheckpointFolderTest() {
    EXPECT_TRUE(toy_.trainer->LoadWeights(ToyWeights()).ok());
    Reopen();
  }
  void Reopen() {
    folder_ = nullptr;
    auto folder = CheckpointFolder::Open(path());
    ASSERT_TRUE(folder.ok()) << folder.status();
    folder_ = *std::move(folder);
  }
  std::string path() const { return directory_ / "out"; }
  std::string At(int64_t step) const {
    return absl::StrCat(path(), "/checkpoint-", step);
  }
  absl::Status Save(int64_t step, std::optional<int64_t> keep_max = {},
                    const std::string& run_id = "mine") {
    return folder_
        ->Save(*toy_.trainer, {.run = {.run_id = run_id, .step = step},
                               .keep_max = keep_max,
                               .write_extras =
                                   [](const std::string& directory) {
                                     std::ofstream(directory + "/config.json")
                                         << "{\"a\": 1}";
                                     return absl::OkStatus();
                                   }})
        .status();
  }
  int64_t LatestStep() const {
    const auto found = FindLatestCheckpoint(path());
    return found.ok() ? found->manifest.run.step : -1;
  }

  const Scenario scenario_{{.dtype = DType::kBF16}, {.max_grad_norm = 4.3}};
  const TempDirectory directory_;
  ToyTrainer toy_ = MakeToyTrainer(scenario_, 1);
  std::unique_ptr<CheckpointFolder> folder_;
};

TEST_F(CheckpointFolderTest, KeepsTheLastOnesByTimeAndNotByName) {
  for (const int64_t step : {8, 9, 10, 11, 12}) ASSERT_TRUE(Save(step, 2).ok());
  EXPECT_EQ(CheckpointNames(path()), (Names{"checkpoint-11", "checkpoint-12"}));
  // A run that went back: what it saves now counts, not the higher number.
  ASSERT_TRUE(Save(9, 2).ok());
  EXPECT_EQ(CheckpointNames(path()), (Names{"checkpoint-9", "checkpoint-12"}));
  EXPECT_EQ(LatestStep(), 9);
}

TEST_F(CheckpointFolderTest, NeitherCountsNorRemovesWhatIsAnothers) {
  ASSERT_TRUE(Save(1000, {}, "another").ok());
  fs::create_directory(path() + "/checkpoint-7");  // of another program
  std::ofstream(path() + "/checkpoint-7/weights.bin") << "x";
  std::ofstream(path() + "/checkpoint-8") << "a file";
  for (const int64_t step : {1, 2, 3}) ASSERT_TRUE(Save(step, 1).ok());
  EXPECT_EQ(CheckpointNames(path()),
            (Names{"checkpoint-3", "checkpoint-7", "checkpoint-1000"}));
  EXPECT_TRUE(fs::exists(path() + "/checkpoint-8"));
  const auto found = FindLatestCheckpoint(path());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->manifest.run.step, 3);
  ASSERT_EQ(found->passed_over.size(), 1u);
  EXPECT_TRUE(absl::StrContains(found->passed_over[0], "checkpoint-7 has no manifest"))
      << found->passed_over[0];
}

TEST_F(CheckpointFolderTest, ReplacesACheckpointOfTheSameStep) {
  ASSERT_TRUE(Save(1, {}, "another").ok());
  ASSERT_TRUE(Save(1).ok());
  const auto found = FindLatestCheckpoint(path());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->manifest.run.run_id, "mine");
  EXPECT_EQ(ListTree(path()).size(), 1u + TensorFiles(At(1)).size() + 1u);
}

TEST_F(CheckpointFolderTest, AFlippedBitInAnyFileIsFoundAndNamed) {
  ASSERT_TRUE(Save(1).ok());
  ASSERT_TRUE(Save(2).ok());
  Names names = {"manifest.json"};
  for (const auto& [name, bytes] : TensorFiles(At(2))) names.push_back(name);
  EXPECT_EQ(names.size(), 6u);
  for (const std::string& name : names) {
    const std::string file = At(2) + "/" + name;
    const auto size = static_cast<int64_t>(fs::file_size(file));
    for (const int64_t byte : {int64_t{0}, size / 3, size / 2, size - 1}) {
      SCOPED_TRACE(absl::StrCat(name, " byte ", byte));
      FlipBit(file, byte, static_cast<int>(byte % 8));
      const absl::Status status = VerifyCheckpoint(At(2)).status();
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(absl::StrContains(status.message(), name)) << status;
      const auto found = FindLatestCheckpoint(path());
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found->directory, At(1));
      ASSERT_EQ(found->passed_over.size(), 1u);
      EXPECT_TRUE(absl::StrContains(found->passed_over[0], file));
      FlipBit(file, byte, static_cast<int>(byte % 8));
    }
  }
  EXPECT_EQ(LatestStep(), 2);
}

TEST_F(CheckpointFolderTest, EveryBitOfTheManifestCounts) {
  ASSERT_TRUE(Save(1).ok());
  const std::string file = At(1) + "/manifest.json";
  const std::string text = FileText(file);
  for (size_t byte = 0; byte < text.size(); ++byte) {
    std::string changed = text;
    changed[byte] = static_cast<char>(changed[byte] ^ (1 << (byte % 8)));
    EXPECT_FALSE(ParseManifest(changed, "m").ok()) << byte;
    EXPECT_FALSE(ParseManifest(text.substr(0, byte), "m").ok()) << byte;
  }
  EXPECT_TRUE(ParseManifest(text, "m").ok());
  EXPECT_FALSE(ParseManifest(text + " ", "m").ok());
}

TEST_F(CheckpointFolderTest, AMissingFileAndAMissingByteAreNamed) {
  ASSERT_TRUE(Save(1).ok());
  for (const auto& [name, bytes] : TensorFiles(At(1))) {
    const std::string file = At(1) + "/" + name;
    fs::resize_file(file, bytes.size() - 1);
    absl::Status status = VerifyCheckpoint(At(1)).status();
    EXPECT_TRUE(absl::StrContains(
        status.message(), absl::StrCat(file, " has ", bytes.size() - 1, " bytes")))
        << status;
    fs::remove(file);
    status = VerifyCheckpoint(At(1)).status();
    EXPECT_TRUE(absl::StrContains(status.message(), file + " is missing")) << status;
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_TRUE(VerifyCheckpoint(At(1)).ok());
  }
  fs::remove(At(1) + "/manifest.json");
  const absl::Status status = FindLatestCheckpoint(path()).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_TRUE(absl::StrContains(status.message(), "checkpoint-1 has no manifest"))
      << status;
}

TEST_F(CheckpointFolderTest, AManifestOfANewerFormatIsNotGuessedAt) {
  ASSERT_TRUE(Save(1).ok());
  ChangeManifest(At(1), [](auto& manifest) { manifest["version"] = 2; });
  const absl::Status status = VerifyCheckpoint(At(1)).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "version 2 is newer")) << status;
}

TEST_F(CheckpointFolderTest, AManifestNamesFilesOfItsOwnDirectoryOnly) {
  ASSERT_TRUE(Save(1).ok());
  ChangeManifest(At(1), [](auto& manifest) {
    manifest["files"][0]["name"] = "../../model.safetensors";
  });
  EXPECT_TRUE(absl::IsInvalidArgument(VerifyCheckpoint(At(1)).status()));
}

TEST_F(CheckpointFolderTest, ItsOwnLeftOversGoAndNothingElse) {
  folder_ = nullptr;
  for (const char* name : {"/.strata-checkpoint-5", "/.strata-checkpoint-6/x",
                           "/.strata-checkpoint-", "/.strata-checkpoint-7b", "/mine"}) {
    fs::create_directories(path() + name);
  }
  std::ofstream(path() + "/.strata-checkpoint-8") << "a file";
  Reopen();
  EXPECT_EQ(folder_->removed().size(), 2u);
  EXPECT_EQ(ListTree(path()), (Names{".strata-checkpoint-", ".strata-checkpoint-7b",
                                     ".strata-checkpoint-8", "mine"}));
}

TEST_F(CheckpointFolderTest, IsOneProcessesAtATime) {
  const auto second = CheckpointFolder::Open(path());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status())) << second.status();
  folder_ = nullptr;
  EXPECT_TRUE(CheckpointFolder::Open(path()).ok());
}

TEST_F(CheckpointFolderTest, AnErrorOfTheApplicationsFilesLeavesNothing) {
  ASSERT_TRUE(Save(1).ok());
  const auto saved =
      folder_->Save(*toy_.trainer, {.run = {.run_id = "mine", .step = 2},
                                    .keep_max = 1,
                                    .write_extras = [](const std::string&) {
                                      return absl::InternalError("no ink");
                                    }});
  EXPECT_TRUE(absl::StrContains(saved.status().message(), "no ink"));
  EXPECT_EQ(CheckpointNames(path()), (Names{"checkpoint-1"}));
  EXPECT_EQ(LatestStep(), 1);
  Reopen();
  EXPECT_TRUE(folder_->removed().empty());
}

TEST_F(CheckpointFolderTest, AnotherModelsCheckpointIsRefusedByTensor) {
  ASSERT_TRUE(Save(1).ok());
  const auto manifest = VerifyCheckpoint(At(1));
  ASSERT_TRUE(manifest.ok());
  Scenario other = scenario_;
  other.toy.tied = true;
  ToyTrainer toy = MakeToyTrainer(other, 2);
  absl::Status status = RestoreTrainer(*toy.trainer, At(1), *manifest);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "model.safetensors")) << status;
  other = scenario_;
  other.toy.dtype = DType::kF32;
  ToyTrainer fp32 = MakeToyTrainer(other, 3);
  status = RestoreTrainer(*fp32.trainer, At(1), *manifest);
  EXPECT_TRUE(absl::StrContains(status.message(), "BF16")) << status;
}

}  // namespace
}  // namespace strata
