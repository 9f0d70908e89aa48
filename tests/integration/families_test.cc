/// Each family of models against what transformers and torch.optim.AdamW compute for
/// it, wherever everything rests, and back into a directory that has what it was made
/// from.

#include <gtest/gtest.h>

#include "model/batch.h"
#include "model/hf_checkpoint.h"
#include "model/hf_config.h"
#include "model/llama.h"
#include "model/model_files.h"
#include "runtime/device/cpu_device.h"
#include "tests/support/family_reference.h"
#include "tests/support/fixture_t0.h"
#include "tests/support/memory_store.h"
#include "tests/support/temporary_directory.h"

namespace strata {
namespace {

constexpr int64_t kAmple = int64_t{1} << 40;
constexpr double kTolerance = 1e-5;  // relative; of logits, to the largest

class Families : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(
        WriteFixture(directory_.path(), family_.config, family_.config_json).ok());
    auto checkpoint = HfCheckpoint::Open(directory_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    checkpoint_ = *std::move(checkpoint);
    ASSERT_EQ(checkpoint_->Verify(family_.config), absl::OkStatus());
  }

  /// With the family's weights, everything that can rest in one tier in `tier`.
  std::unique_ptr<Trainer> MakeTrainer(TierKind tier) {
    ModelShape model;
    model.layers = *BuildLlama(family_.config, DType::kF32, {});
    model.micro_batch = {1, reference_.options.row};
    TrainerOptions options;
    options.optimizer.max_grad_norm = reference_.options.max_grad_norm;
    options.budgets = {kAmple, kAmple, kAmple};
    options.pins = {.weights = tier, .optimizer = tier, .gradients = tier};
    options.evaluates = true;
    options.device = options.host_device = device_.get();
    options.make_store =
        [](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
      return std::make_unique<MemoryStore>(needs.capacity_bytes,
                                           MemoryStore::Mode::kImmediate);
    };
    auto trainer = Trainer::Create(std::move(model), options);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    if (!trainer.ok()) return nullptr;
    EXPECT_EQ((*trainer)->LoadWeights(ReadFrom(*checkpoint_)), absl::OkStatus());
    return *std::move(trainer);
  }

  Batch BatchOf(int sequence) const {
    const int64_t length = reference_.options.row;
    const auto tokens = FixtureSequence(sequence, length, family_.config.vocab);
    Batch batch(1, length);
    batch.Append(0, {.tokens = tokens, .labels = tokens, .document_ends = {length}});
    return batch;
  }

  const TemporaryDirectory directory_;
  const FamilyReference reference_ = ReadFamilyReference({GetParam()});
  const Family& family_ = reference_.families.at(GetParam());
  const std::unique_ptr<CpuDevice> device_ =
      CreateCpuDevice({.device_bytes = kAmple, .pinned_host_bytes = kAmple});
  std::unique_ptr<HfCheckpoint> checkpoint_;
};

MicroBatch Borrowed(const Batch& batch) {
  return {batch.tokens, batch.targets, batch.positions, batch.documents};
}

TEST_P(Families, ParametersAreCountedAsTransformersDoes) {
  EXPECT_EQ(ParameterCount(family_.config), family_.parameters);
}

TEST_P(Families, LogitsAndStepsAreTransformersInEveryPlacement) {
  const Batch first = BatchOf(0);
  const auto vocab = static_cast<size_t>(family_.config.vocab);
  double largest = 0;
  for (const auto& row : family_.logits) {
    for (const double value : row) largest = std::max(largest, std::abs(value));
  }
  std::vector<float> reference_logits;
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    SCOPED_TRACE(Name(tier));
    const std::unique_ptr<Trainer> trainer = MakeTrainer(tier);
    ASSERT_NE(trainer, nullptr);
    std::vector<float> logits(first.tokens.size() * vocab);
    const MicroBatch borrowed = Borrowed(first);
    ASSERT_TRUE(trainer->Evaluate(std::span(&borrowed, 1), logits).ok());
    for (size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(logits[i], family_.logits[i / vocab][i % vocab], kTolerance * largest)
          << "row " << i / vocab << ", token " << i % vocab;
    }
    for (size_t step = 0; step < family_.losses.size(); ++step) {
      const Batch batch = BatchOf(static_cast<int>(step));
      const MicroBatch micro_batch = Borrowed(batch);
      const auto result =
          trainer->Step(std::span(&micro_batch, 1), reference_.options.learning_rate);
      ASSERT_TRUE(result.ok()) << result.status();
      const double loss = family_.losses[step], norm = family_.norms[step];
      EXPECT_NEAR(result->loss, loss, kTolerance * loss) << "step " << step + 1;
      EXPECT_NEAR(result->grad_norm, norm, kTolerance * norm) << "step " << step + 1;
      EXPECT_TRUE(result->clipped);
    }
    // Placements agree to the last bit.
    std::vector<float> after(logits.size());
    ASSERT_TRUE(trainer->Evaluate(std::span(&borrowed, 1), after).ok());
    if (reference_logits.empty()) reference_logits = after;
    EXPECT_EQ(after, reference_logits);
  }
}

TEST_P(Families, TheExportHasTheConfigurationAndTheTensorsOfTheOriginal) {
  const std::unique_ptr<Trainer> trainer = MakeTrainer(TierKind::kHost);
  ASSERT_NE(trainer, nullptr);
  const auto config = ParseHfConfig(family_.config_json, "config.json");
  const std::string target = directory_.File("exported");
  ASSERT_EQ(ExportModel(*trainer, *config, directory_.path(), target),
            absl::OkStatus());
  const auto exported_config = LoadHfConfig(target);
  ASSERT_TRUE(exported_config.ok()) << exported_config.status();
  EXPECT_EQ(exported_config->shape, family_.config);
  const auto exported = HfCheckpoint::Open(target);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ((*exported)->Verify(family_.config), absl::OkStatus());
  ASSERT_EQ((*exported)->tensors().size(), checkpoint_->tensors().size());
  const TensorReader original = ReadFrom(*checkpoint_), copy = ReadFrom(**exported);
  for (const TensorShape& tensor : TensorsOf(family_.config)) {
    const TensorSpec spec{.name = tensor.name, .shape = tensor.shape};
    std::vector<float> expected(FixtureTensor(tensor).size()), found(expected.size());
    ASSERT_TRUE(original(spec, 0, expected).ok());
    ASSERT_TRUE(copy(spec, 0, found).ok());
    EXPECT_EQ(found, expected) << tensor.name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("llama", "llama3_rope", "linear_rope",
                                         "llama_biased", "mistral", "qwen2",
                                         "qwen2_tied", "qwen3", "qwen3_tied"),
                         [](const auto& instance) { return instance.param; });

TEST(FamilyReferenceFile, HasNoFamilyThatIsNotTested) {
  EXPECT_EQ(ReadFamilyReference({}).families.size(), 9u);
}

}  // namespace
}  // namespace strata
