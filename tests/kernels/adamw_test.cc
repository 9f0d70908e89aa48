#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/master.h"
#include "op_test.h"

namespace strata {
namespace {

constexpr int64_t kNoneBad = std::numeric_limits<int64_t>::max();

AdamWScalars Scalars() {
  return {.gradient_scale = 0.7f,
          .beta1 = 0.9f,
          .one_minus_beta1 = 0.1f,
          .beta2 = 0.999f,
          .one_minus_beta2 = 0.001f,
          .step_size = 3e-3f,
          .sqrt_correction2 = 0.05f,
          .epsilon = 1e-8f,
          .decay_factor = 0.9995f,
          .l2 = 0.02f};
}

/// State of one tensor, as an optimizer sees it.
struct State {
  State(DType dtype, int64_t count)
      : weight(dtype == DType::kF32 ? TestTensor::Random(dtype, count, 1)
                                    : TestTensor(dtype, count)),
        remainder(static_cast<size_t>(count)),
        moment1(TestTensor::Random(DType::kF32, count, 2, 0, 0.1)),
        moment2(TestTensor::Random(DType::kF32, count, 3, 0.05, 0.05)),
        gradient(TestTensor::Random(dtype, count, 4)) {
    if (dtype == DType::kF32) return;
    const TestTensor master = TestTensor::Random(DType::kF32, count, 5);
    for (int64_t i = 0; i < count; ++i) SetMaster(i, master.floats()[i]);
  }

  float Master(int64_t i) const {
    if (weight.dtype() == DType::kF32) return weight.floats()[i];
    return std::bit_cast<float>(Join(static_cast<const uint16_t*>(weight.data())[i],
                                     remainder[static_cast<size_t>(i)]));
  }
  void SetMaster(int64_t i, float value) {
    if (weight.dtype() == DType::kF32) {
      weight.floats()[i] = value;
      return;
    }
    const SplitMaster split = Split(std::bit_cast<uint32_t>(value));
    static_cast<uint16_t*>(weight.data())[i] = split.weight;
    remainder[static_cast<size_t>(i)] = split.remainder;
  }
  AdamW Op(int64_t* first_bad) {
    return {.weight = weight.data(),
            .remainder = weight.dtype() == DType::kBF16 ? remainder.data() : nullptr,
            .moment1 = moment1.floats(),
            .moment2 = moment2.floats(),
            .gradient = gradient.data(),
            .speculated = nullptr,
            .count = weight.count(),
            .scalars = Scalars(),
            .dtype = weight.dtype(),
            .first_bad = first_bad,
            .first_element = 1000};
  }

  TestTensor weight;
  std::vector<int16_t> remainder;
  TestTensor moment1, moment2, gradient;
};

/// The formula, one rounding an operation, in this test's own words.
struct Scalar {
  float w, m, v;
};
Scalar Step(const AdamWScalars& s, float gradient, Scalar old) {
  volatile float scaled = s.gradient_scale * gradient;
  volatile float decay = s.l2 * old.w;
  volatile float g = scaled + decay;
  volatile float m1 = s.beta1 * old.m;
  volatile float m2 = s.one_minus_beta1 * g;
  volatile float m = m1 + m2;
  volatile float square = g * g;
  volatile float v1 = s.beta2 * old.v;
  volatile float v2 = s.one_minus_beta2 * square;
  volatile float v = v1 + v2;
  volatile float root = std::sqrt(v);
  volatile float corrected = root / s.sqrt_correction2;
  volatile float denominator = corrected + s.epsilon;
  volatile float step = s.step_size * m;
  volatile float change = step / denominator;
  volatile float decayed = old.w * s.decay_factor;
  volatile float w = decayed - change;
  return {w, m, v};
}

class AdamWTest : public OpTest {};

TEST_F(AdamWTest, EqualsTheScalarFormulaBitForBit) {
  for (const DType dtype : kBothTypes) {
    for (const int64_t count : {1, 31, 33, 511, 513, 40'000}) {
      State state(dtype, count);
      State before(dtype, count);
      int64_t first_bad = kNoneBad;
      RunOp(state.Op(&first_bad));
      EXPECT_EQ(first_bad, kNoneBad);
      for (int64_t i = 0; i < count; ++i) {
        const Scalar expected = Step(
            Scalars(), static_cast<float>(before.gradient[i]),
            {before.Master(i), before.moment1.floats()[i], before.moment2.floats()[i]});
        ASSERT_EQ(state.Master(i), expected.w) << i;
        ASSERT_EQ(state.moment1.floats()[i], expected.m) << i;
        ASSERT_EQ(state.moment2.floats()[i], expected.v) << i;
      }
    }
  }
}

/// Numbers of every size, with the edges among them.
float AnyFloat(uint64_t hash) {
  constexpr uint32_t kEdges[] = {0x00000000, 0x80000000, 0x00000001, 0x807FFFFF,
                                 0x00800000, 0x3F7FFFFF, 0x3FFFFFFF, 0x7F7F0000};
  if (hash % 8 == 0) return std::bit_cast<float>(kEdges[hash / 8 % 8]);
  // Exponents around those of gradients, or any.
  const uint32_t exponent = hash % 8 < 6 ? 80 + hash / 8 % 64 : hash / 8 % 240;
  return std::bit_cast<float>(static_cast<uint32_t>(hash >> 40 << 31) | exponent << 23 |
                              (static_cast<uint32_t>(hash >> 32) & 0x7FFFFF));
}

TEST_F(AdamWTest, EqualsTheScalarFormulaForNumbersOfEverySize) {
  const int64_t count = 200'003;
  State state(DType::kF32, count), before(DType::kF32, count);
  std::mt19937_64 random(11);
  for (int64_t i = 0; i < count; ++i) {
    before.weight.floats()[i] = state.weight.floats()[i] = AnyFloat(random());
    before.gradient.floats()[i] = state.gradient.floats()[i] = AnyFloat(random());
    before.moment1.floats()[i] = state.moment1.floats()[i] = AnyFloat(random());
    before.moment2.floats()[i] = state.moment2.floats()[i] =
        std::abs(AnyFloat(random()));
  }
  int64_t first_bad = kNoneBad;
  RunOp(state.Op(&first_bad));
  for (int64_t i = 0; i < count; ++i) {
    const Scalar expected = Step(Scalars(), before.gradient.floats()[i],
                                 {before.weight.floats()[i], before.moment1.floats()[i],
                                  before.moment2.floats()[i]});
    if (std::isnan(expected.w)) {
      ASSERT_TRUE(std::isnan(state.weight.floats()[i])) << i;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(state.weight.floats()[i]),
              std::bit_cast<uint32_t>(expected.w))
        << i;
  }
}

TEST_F(AdamWTest, EqualsTheScalarFormulaForEveryCorrection) {
  const int64_t count = 50'000;
  std::mt19937_64 random(13);
  for (const float correction : {1.0f, 0x1.fffffep-1f, 0x1.fffffcp-1f, 0.03162278f,
                                 0.0447f, 0.5f, 0x1.8p-4f, 0x1.ffep-7f, 1e-4f}) {
    State state(DType::kF32, count), before(DType::kF32, count);
    AdamWScalars scalars = Scalars();
    scalars.sqrt_correction2 = correction;
    for (int64_t i = 0; i < count; ++i) {
      before.moment2.floats()[i] = state.moment2.floats()[i] =
          std::abs(AnyFloat(random()));
    }
    int64_t first_bad = kNoneBad;
    AdamW op = state.Op(&first_bad);
    op.scalars = scalars;
    RunOp(op);
    for (int64_t i = 0; i < count; ++i) {
      const Scalar expected =
          Step(scalars, before.gradient.floats()[i],
               {before.weight.floats()[i], before.moment1.floats()[i],
                before.moment2.floats()[i]});
      ASSERT_EQ(std::bit_cast<uint32_t>(state.weight.floats()[i]),
                std::bit_cast<uint32_t>(expected.w))
          << correction << " " << i;
    }
  }
}

TEST_F(AdamWTest, SpeculationWritesTheWeightOfTheUpdateAndNothingElse) {
  for (const DType dtype : kBothTypes) {
    State state(dtype, 1037);
    const State before(dtype, 1037);
    const TestTensor speculated(dtype, 1037);
    AdamW op = state.Op(nullptr);
    op.speculated = speculated.data();
    RunOp(op);
    EXPECT_TRUE(state.weight == before.weight);
    EXPECT_EQ(state.remainder, before.remainder);
    EXPECT_TRUE(state.moment1 == before.moment1);
    EXPECT_TRUE(state.moment2 == before.moment2);
    RunOp(state.Op(nullptr));
    EXPECT_TRUE(speculated == state.weight);
  }
}

TEST_F(AdamWTest, TwoStepsInOnePassAreTheUpdateAndThenTheSpeculation) {
  AdamWScalars next = Scalars();
  next.gradient_scale = 1;
  next.step_size = 2e-3f;
  for (const DType dtype : kBothTypes) {
    const int64_t count = 1037;
    State one_pass(dtype, count), two_passes(dtype, count);
    const TestTensor gradient = TestTensor::Random(dtype, count, 9);
    const TestTensor speculated(dtype, count), expected(dtype, count);
    int64_t first_bad = kNoneBad;
    AdamW op = one_pass.Op(&first_bad);
    op.speculated = speculated.data();
    op.next_gradient = gradient.data();
    op.next_scalars = next;
    op.kept_gradient = one_pass.gradient.data();
    RunOp(op);

    RunOp(two_passes.Op(&first_bad));
    AdamW guess = two_passes.Op(nullptr);
    guess.gradient = gradient.data();
    guess.scalars = next;
    guess.speculated = expected.data();
    RunOp(guess);
    EXPECT_TRUE(one_pass.weight == two_passes.weight);
    EXPECT_EQ(one_pass.remainder, two_passes.remainder);
    EXPECT_TRUE(one_pass.moment1 == two_passes.moment1);
    EXPECT_TRUE(one_pass.moment2 == two_passes.moment2);
    EXPECT_TRUE(speculated == expected);
    EXPECT_FALSE(speculated == one_pass.weight);
    EXPECT_TRUE(one_pass.gradient == gradient);
  }
}

TEST_F(AdamWTest, NamesTheFirstElementThatIsNotFiniteOrRoundsToInfinity) {
  for (const DType dtype : kBothTypes) {
    State state(dtype, 70'000);
    int64_t first_bad = kNoneBad;
    AdamW op = state.Op(&first_bad);
    op.scalars.decay_factor = 1;
    state.SetMaster(65'123, std::bit_cast<float>(0x7F7F0000));  // fits BF16, barely
    RunOp(op);
    EXPECT_EQ(first_bad, kNoneBad);

    state.SetMaster(67'000, std::numeric_limits<float>::quiet_NaN());
    state.SetMaster(66'000, std::bit_cast<float>(0xFF7F9000));  // finite, in fp32 only
    RunOp(op);
    EXPECT_EQ(first_bad, 1000 + (dtype == DType::kBF16 ? 66'000 : 67'000));

    state.gradient.Set(40'000, std::numeric_limits<double>::infinity());
    RunOp(op);
    EXPECT_EQ(first_bad, 1000 + 40'000);

    state.gradient.Set(50'000, std::numeric_limits<double>::infinity());
    RunOp(op);
    EXPECT_EQ(first_bad, 1000 + 40'000) << "only ever lowered";
  }
}

TEST_F(AdamWTest, BitsDoNotDependOnThreads) {
  const auto one_thread = Create(1);
  State three(DType::kBF16, 100'003);
  State one(DType::kBF16, 100'003);
  RunOp(three.Op(nullptr));
  ASSERT_EQ(one_thread->Run(stream_, one.Op(nullptr)), absl::OkStatus());
  EXPECT_TRUE(three.weight == one.weight);
  EXPECT_EQ(three.remainder, one.remainder);
  EXPECT_TRUE(three.moment2 == one.moment2);
}

}  // namespace
}  // namespace strata
