// The layers against losses, gradient norms and single gradients that were computed
// elsewhere in double precision, and against themselves.
#include "model/llama.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/fixture_t0.h"
#include "tests/support/layer_chain.h"

namespace strata {
namespace {

LayerChain MakeChain(const TransformerConfig& config, MicroBatchShape shape,
                     DType dtype = DType::kF32, const LlamaOptions& options = {}) {
  LayerChain chain(*BuildLlama(config, dtype, options), shape, dtype);
  for (const TensorPlacement& tensor : chain.tensors()) {
    chain.SetWeight(tensor.spec.name,
                    FixtureTensor({tensor.spec.name, tensor.spec.shape}));
  }
  return chain;
}

Sample MakeSample(int sequence, int64_t length) {
  Sample sample{.tokens = FixtureSequence(sequence, length, FixtureT0().vocab)};
  sample.labels = sample.tokens;
  sample.document_ends = {length};
  return sample;
}

Batch MakeBatch(const std::vector<std::vector<Sample>>& rows, int64_t length) {
  Batch batch(static_cast<int64_t>(rows.size()), length);
  for (size_t row = 0; row < rows.size(); ++row) {
    for (const Sample& sample : rows[row]) {
      batch.Append(static_cast<int64_t>(row), sample);
    }
  }
  return batch;
}

/// 16 tokens of sequence 0.
Batch Sequence0() { return MakeBatch({{MakeSample(0, 16)}}, 16); }
constexpr MicroBatchShape kOneRow{.sequences = 1, .length = 16};

double MeanLoss(double sum, const Batch& batch) {
  return sum / static_cast<double>(batch.trained_tokens);
}

double TrainOnMean(LayerChain& chain, const Batch& batch, size_t lowest = 0) {
  const auto scale =
      static_cast<float>(1.0 / static_cast<double>(batch.trained_tokens));
  return MeanLoss(chain.Train(batch, scale, lowest), batch);
}

void ExpectLossAndNorm(const TransformerConfig& config, double loss, double norm) {
  LayerChain chain = MakeChain(config, kOneRow);
  const Batch batch = Sequence0();
  EXPECT_NEAR(MeanLoss(chain.Loss(batch), batch), loss, 1e-5 * loss);
  EXPECT_NEAR(TrainOnMean(chain, batch), loss, 1e-5 * loss);
  EXPECT_NEAR(chain.GradientNorm(), norm, 1e-5 * norm);
}

/// T0 with what other families have, all at once.
TransformerConfig Decorated() {
  TransformerConfig config = FixtureT0();
  config.qkv_bias = config.output_bias = config.qk_norm = true;
  config.head_dim = 12;
  return config;
}

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

TEST(Llama, LossAndGradientEqualTheReference) {
  ExpectLossAndNorm(FixtureT0(), 4.7119700, 5.1074216);
}

TEST(Llama, EachGradientEqualsTheReference) {
  LayerChain chain = MakeChain(FixtureT0(), kOneRow);
  TrainOnMean(chain, Sequence0());
  const struct {
    const char* name;
    double norm, first, second;
  } expected[] = {
      {"model.layers.0.self_attn.q_proj.weight", 1.1498825, 0.00379200, -0.02186125},
      {"model.layers.0.self_attn.k_proj.weight", 1.1276912, 0.01316963, -0.10139175},
      {"model.layers.0.self_attn.v_proj.weight", 1.5038513, 0.11864343, 0.08022072},
      {"model.layers.0.self_attn.o_proj.weight", 1.7664784, 0.14703924, -0.03680011},
      {"model.layers.0.mlp.gate_proj.weight", 1.2452165, 0.01173675, 0.02235439},
      {"model.layers.0.mlp.up_proj.weight", 1.2325838, -0.00686032, -0.00978864},
      {"model.layers.0.mlp.down_proj.weight", 1.3619529, 0.04119518, 0.00635882},
      {"model.layers.0.input_layernorm.weight", 0.3028303, -0.04924212, -0.08435930},
      {"model.layers.0.post_attention_layernorm.weight", 0.2616028, 0.04489306,
       0.02288796},
      {"model.layers.1.self_attn.q_proj.weight", 0.3758085, 0.00365139, -0.01167552},
      {"model.layers.1.mlp.down_proj.weight", 0.6985108, 0.01996663, -0.03025006},
      {"model.norm.weight", 0.2678687, -0.06072474, 0.06974277},
      {"lm_head.weight", 1.4749838, 0.02726481, 0.00376277},
      {"model.embed_tokens.weight", 2.3746694, 0, 0},
  };
  for (const auto& tensor : expected) {
    const std::vector<double> gradient = chain.Gradient(tensor.name);
    EXPECT_NEAR(Norm(gradient), tensor.norm, 1e-5 * tensor.norm) << tensor.name;
    EXPECT_NEAR(gradient[0], tensor.first, 2e-6) << tensor.name;
    EXPECT_NEAR(gradient[1], tensor.second, 2e-6) << tensor.name;
  }
}

TEST(Llama, TiedHeadAddsBothUsesOfTheEmbedding) {
  TransformerConfig config = FixtureT0();
  config.tied = true;
  ExpectLossAndNorm(config, 4.3647953, 4.6578201);
}

TEST(Llama, HeadsNeedNotFillTheHiddenWidth) {
  TransformerConfig config = FixtureT0();
  config.head_dim = 16;
  ExpectLossAndNorm(config, 5.0456805, 4.9816577);
}

TEST(Llama, TensorsNeedNotLieTightly) {
  // 8 x 36 elements of k_proj are no multiple of the alignment: q, k and v are not one
  // matrix, and neither are gate and up.
  TransformerConfig config = FixtureT0();
  config.hidden = 36;
  config.heads = 8;
  config.head_dim = 4;
  ExpectLossAndNorm(config, 4.0955267, 7.7586226);
}

TEST(Llama, EveryHeadMayHaveItsOwnKeys) {
  TransformerConfig config = FixtureT0();
  config.kv_heads = 4;
  ExpectLossAndNorm(config, 4.5595363, 5.2564159);
}

TEST(Llama, RopeScalingEqualsTheReference) {
  TransformerConfig config = FixtureT0();
  config.rope = {.type = RopeType::kLinear, .factor = 4};
  ExpectLossAndNorm(config, 4.8626834, 5.6991262);
  config.head_dim = 16;
  config.rope = {.theta = 500000,
                 .type = RopeType::kLlama3,
                 .factor = 8,
                 .low_freq_factor = 1,
                 .high_freq_factor = 4,
                 .original_max_position = 32};
  ExpectLossAndNorm(config, 5.0439491, 4.8203229);
}

TEST(Llama, PackedDocumentsEqualTheSameDocumentsAlone) {
  const std::vector<Sample> documents = {MakeSample(20, 5), MakeSample(21, 9),
                                         MakeSample(22, 2)};
  const Batch packed = MakeBatch({documents}, 16);
  ASSERT_EQ(packed.trained_tokens, 13);
  LayerChain chain = MakeChain(FixtureT0(), kOneRow);
  EXPECT_NEAR(TrainOnMean(chain, packed), 4.1623511, 1e-5 * 4.16);

  double sum = 0;
  std::vector<double> gradient;  // of one tensor that every document trains
  const std::string name = "model.layers.0.self_attn.k_proj.weight";
  for (const Sample& document : documents) {
    LayerChain alone =
        MakeChain(FixtureT0(), {.sequences = 1, .length = document.size()});
    sum += alone.Train(MakeBatch({{document}}, document.size()), 1.0f / 13);
    const std::vector<double> part = alone.Gradient(name);
    gradient.resize(part.size());
    for (size_t i = 0; i < part.size(); ++i) gradient[i] += part[i];
  }
  EXPECT_NEAR(sum / 13, 4.1623511, 1e-5 * 4.16);
  const std::vector<double> together = chain.Gradient(name);
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_NEAR(together[i], gradient[i], 1e-5);
  }

  // With rotary positions only their differences count.
  Batch running = packed;
  for (size_t i = 0; i < 16; ++i) running.positions[i] = static_cast<int32_t>(i);
  EXPECT_NEAR(MeanLoss(chain.Loss(running), packed), 4.1623511, 1e-5 * 4.16);
}

TEST(Llama, RowsOfABatchDoNotDependOnEachOther) {
  const std::vector<Sample> first = {MakeSample(20, 5), MakeSample(21, 9),
                                     MakeSample(22, 2)};
  const std::vector<Sample> second = {MakeSample(23, 8), MakeSample(24, 8)};
  LayerChain pair = MakeChain(FixtureT0(), {.sequences = 2, .length = 16});
  LayerChain one = MakeChain(FixtureT0(), kOneRow);
  pair.Loss(MakeBatch({first, second}, 16));
  const TestTensor both = pair.output(2).Copy();
  pair.Loss(MakeBatch({second, first}, 16));
  one.Loss(MakeBatch({first}, 16));
  const size_t row_bytes = 16 * 32 * sizeof(float);
  EXPECT_EQ(std::memcmp(both.bytes(), one.output(2).bytes(), row_bytes), 0);
  EXPECT_EQ(std::memcmp(pair.output(2).bytes() + row_bytes, both.bytes(), row_bytes),
            0);
}

double LongContextLoss(int64_t length, DType dtype, bool round_weights) {
  TransformerConfig config = FixtureT0();
  config.layers = 1;
  config.max_position = 8192;
  Sample sample = MakeSample(5, length);
  std::fill(sample.labels.begin(), sample.labels.end() - 64, kIgnoredLabel);
  LayerChain chain = MakeChain(config, {.sequences = 1, .length = length}, dtype);
  if (round_weights) {
    const LayerChain rounded = MakeChain(config, kOneRow, DType::kBF16);
    for (const TensorPlacement& tensor : chain.tensors()) {
      for (int64_t i = 0; i < tensor.count; ++i) {
        chain.SetWeight(tensor.spec.name, i, rounded.Weight(tensor.spec.name, i));
      }
    }
  }
  const Batch batch = MakeBatch({{sample}}, length);
  return MeanLoss(chain.Loss(batch), batch);
}

TEST(Llama, LongContextEqualsTheReference) {
  EXPECT_NEAR(LongContextLoss(1024, DType::kF32, false), 4.6603805, 1e-5 * 4.66);
  EXPECT_NEAR(LongContextLoss(4160, DType::kF32, false), 4.5218042, 1e-5 * 4.52);
}

TEST(Llama, Bf16ComputesWithFp32AnglesAtLongContext) {
  const double loss = LongContextLoss(1024, DType::kF32, true);
  EXPECT_NEAR(LongContextLoss(1024, DType::kBF16, false), loss, 2e-3 * loss);
}

void ExpectGradientsOfFiniteDifferences(const TransformerConfig& config) {
  LayerChain chain = MakeChain(config, {.sequences = 2, .length = 16});
  const Batch batch =
      MakeBatch({{MakeSample(0, 7), MakeSample(1, 9)}, {MakeSample(2, 11)}}, 16);
  TrainOnMean(chain, batch);
  for (const TensorPlacement& tensor : chain.tensors()) {
    // Along the gradient itself, where the derivative is its norm: no rounding error of
    // the loss hides a wrong element that is large enough to matter.
    const std::string& name = tensor.spec.name;
    const std::vector<double> gradient = chain.Gradient(name);
    const double norm = Norm(gradient);
    std::vector<double> weight;
    for (int64_t i = 0; i < tensor.count; ++i) weight.push_back(chain.Weight(name, i));
    const auto loss_at = [&](double step) {
      for (int64_t i = 0; i < tensor.count; ++i) {
        const auto index = static_cast<size_t>(i);
        chain.SetWeight(name, i, weight[index] + step * gradient[index] / norm);
      }
      return MeanLoss(chain.Loss(batch), batch);
    };
    const double slope = (loss_at(1e-2) - loss_at(-1e-2)) / 2e-2;
    loss_at(0);
    EXPECT_NEAR(slope, norm, 2e-3 * norm + 1e-4) << name;
  }
}

TEST(Llama, GradientsEqualFiniteDifferences) {
  TransformerConfig tied = FixtureT0();
  tied.tied = true;
  ExpectGradientsOfFiniteDifferences(tied);
  ExpectGradientsOfFiniteDifferences(Decorated());
}

TEST(Llama, RecomputedActivationsHaveTheSameBytes) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const TransformerConfig& config : {FixtureT0(), Decorated()}) {
      LayerChain chain = MakeChain(config, kOneRow, dtype);
      const Batch batch = Sequence0();
      chain.Loss(batch);
      for (const size_t block : {1, 2}) {
        EXPECT_TRUE(chain.Recompute(batch, block) == chain.saved(block));
      }
    }
  }
}

TEST(Llama, FrozenTensorsHaveNoAccumulatorAndChangeNoOtherGradient) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const std::string norm = "model.layers.1.input_layernorm.weight";
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  const LlamaOptions options{.trainable = [&](absl::string_view name) {
    return name != q && name != norm && name != up && name != "lm_head.weight";
  }};
  LayerChain all = MakeChain(FixtureT0(), kOneRow);
  LayerChain some = MakeChain(FixtureT0(), kOneRow, DType::kF32, options);
  const Batch batch = Sequence0();
  EXPECT_NEAR(TrainOnMean(all, batch), TrainOnMean(some, batch), 1e-6);
  for (const TensorPlacement& tensor : some.tensors()) {
    if (!tensor.spec.trainable) continue;
    const std::vector<double> expected = all.Gradient(tensor.spec.name);
    const std::vector<double> gradient = some.Gradient(tensor.spec.name);
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(gradient[i], expected[i], 1e-6) << tensor.spec.name;
    }
  }
}

TEST(Llama, TheLowestLayerNeedNotPassAGradientOn) {
  // Only the last block is trained, or only its MLP, or only the head's norm.
  for (const char* trained :
       {"layers.1", "layers.1.mlp", "layers.1.post", "layers.1.input",
        "layers.1.self_attn.o_proj.weight", "layers.1.self_attn.o_proj.bias",
        "layers.1.self_attn.k_proj.bias", "layers.1.self_attn.q_norm", "model.norm"}) {
    const LlamaOptions options{.trainable = [trained](absl::string_view name) {
      return name.find(trained) != absl::string_view::npos;
    }};
    LayerChain all = MakeChain(Decorated(), kOneRow);
    LayerChain some = MakeChain(Decorated(), kOneRow, DType::kF32, options);
    TrainOnMean(all, Sequence0());
    TrainOnMean(some, Sequence0(), std::string(trained) == "model.norm" ? 3 : 2);
    int compared = 0;
    for (const TensorPlacement& tensor : some.tensors()) {
      if (!tensor.spec.trainable) continue;
      ++compared;
      const std::vector<double> expected = all.Gradient(tensor.spec.name);
      const std::vector<double> gradient = some.Gradient(tensor.spec.name);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(gradient[i], expected[i], 1e-6) << tensor.spec.name;
      }
    }
    EXPECT_GT(compared, 0) << trained;
  }
}

TEST(Llama, LogitsAreThoseOfTheLoss) {
  LayerChain chain = MakeChain(FixtureT0(), kOneRow);
  chain.WantLogits(67);
  const Batch batch = Sequence0();
  const double loss = chain.Loss(batch);
  double expected = 0;
  for (int64_t row = 0; row < 16; ++row) {
    const int32_t target = batch.targets[static_cast<size_t>(row)];
    double sum = 0;
    for (int64_t i = 0; i < 67; ++i) sum += std::exp(chain.logits()[row * 67 + i]);
    if (target != kIgnoredLabel) {
      expected += std::log(sum) - chain.logits()[row * 67 + target];
    }
  }
  EXPECT_NEAR(loss, expected, 1e-5 * expected);
}

TEST(Llama, NamesWhatTheKernelsCannotCompute) {
  TransformerConfig config = FixtureT0();
  EXPECT_FALSE(BuildLlama(config, DType::kF16, {}).ok());
  config.head_dim = 7;
  EXPECT_NE(BuildLlama(config, DType::kF32, {}).status().message().find("head_dim"),
            absl::string_view::npos);
  config = FixtureT0();
  config.kv_heads = 3;
  EXPECT_NE(BuildLlama(config, DType::kF32, {}).status().message().find("heads"),
            absl::string_view::npos);
  config = FixtureT0();
  config.hidden = 0;
  EXPECT_FALSE(BuildLlama(config, DType::kF32, {}).ok());
}

}  // namespace
}  // namespace strata
