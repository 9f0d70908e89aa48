/// AdamW on CUDA gives the bits of the CPU: on numbers of every kind, and on 10^8.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/master.h"
#include "tests/kernels/two_sides.h"

namespace strata {
namespace {

constexpr AdamWScalars kScalars = {.gradient_scale = 0.37f,
                                   .beta1 = 0.9f,
                                   .one_minus_beta1 = 0.1f,
                                   .beta2 = 0.999f,
                                   .one_minus_beta2 = 0.001f,
                                   .step_size = 3e-4f,
                                   .sqrt_correction2 = 0.21f,
                                   .epsilon = 1e-8f,
                                   .decay_factor = 0.99997f,
                                   .l2 = 0.0f};

uint64_t Hash(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// A float whose exponent lies within [low, high] of the 8-bit field; sign and fraction
/// are arbitrary. Exponent 0 gives subnormals and zeros.
uint32_t FloatBits(uint64_t hash, uint32_t low, uint32_t high) {
  const uint32_t exponent = low + static_cast<uint32_t>(hash >> 40) % (high - low + 1);
  return (static_cast<uint32_t>(hash) & 0x807FFFFF) | exponent << 23;
}

/// Numbers as training has them, and one in eight of an extreme kind: subnormal, zero,
/// exactly between two bf16 numbers, huge.
uint32_t ElementBits(uint64_t hash) {
  switch (hash >> 56 & 31) {
    case 0:
      return FloatBits(hash, 0, 0);
    case 1:
      return static_cast<uint32_t>(hash) & 0x80000000;
    case 2:
      return (FloatBits(hash, 100, 130) & 0xFFFF0000) | 0x8000;
    case 3:
      return FloatBits(hash, 230, 254);
    default:
      return FloatBits(hash, 80, 130);
  }
}

class CudaAdamWTest : public TwoSides {
 protected:
  struct State {
    Tensor *weight, *remainder, *moment1, *moment2, *gradient, *speculated, *first_bad;
  };

  State MakeState(int64_t count, DType dtype, uint64_t seed) {
    NextCase();
    State s{.weight = &Unwritten(count, dtype),
            .remainder = &Unwritten(count, DType::kBF16),
            .moment1 = &Unwritten(count, DType::kF32),
            .moment2 = &Unwritten(count, DType::kF32),
            .gradient = &Unwritten(count, dtype),
            .speculated = &Unwritten(count, dtype),
            .first_bad = &Bytes(8)};
    const auto store = [](Tensor* tensor, int64_t i, uint32_t bits, int64_t bytes) {
      std::memcpy(tensor->initial.data() + i * bytes, &bits, bytes);
    };
    for (int64_t i = 0; i < count; ++i) {
      const uint64_t hash = Hash(seed + 4 * i);
      const uint32_t master = ElementBits(hash);
      const uint32_t gradient = ElementBits(Hash(seed + 4 * i + 1));
      if (dtype == DType::kF32) {
        store(s.weight, i, master, 4);
        store(s.gradient, i, gradient, 4);
      } else {
        const SplitMaster split = Split(master);
        store(s.weight, i, split.weight, 2);
        store(s.remainder, i, static_cast<uint16_t>(split.remainder), 2);
        store(s.gradient, i, gradient >> 16, 2);
      }
      store(s.moment1, i, ElementBits(Hash(seed + 4 * i + 2)), 4);
      store(s.moment2, i, ElementBits(Hash(seed + 4 * i + 3)) & 0x7FFFFFFF, 4);
    }
    const int64_t none = INT64_MAX;
    std::memcpy(s.first_bad->initial.data(), &none, 8);
    return s;
  }

  AdamW Op(const State& s, Side side, DType dtype, bool speculate,
           const AdamWScalars& scalars) {
    AdamW op{.weight = s.weight->On(side),
             .remainder = nullptr,
             .moment1 = s.moment1->On(side),
             .moment2 = s.moment2->On(side),
             .gradient = s.gradient->On(side),
             .speculated = nullptr,
             .count = s.weight->count,
             .scalars = scalars,
             .dtype = dtype,
             .first_bad = s.first_bad->On(side),
             .first_element = 1000};
    if (dtype == DType::kBF16) op.remainder = s.remainder->On(side);
    if (speculate) op.speculated = s.speculated->On(side);
    return op;
  }

  /// Both sides' masters of element i.
  static uint32_t MasterBits(const State& s, const std::byte* weight,
                             const std::byte* remainder, int64_t i) {
    uint32_t bits = 0;
    if (s.weight->dtype == DType::kF32) {
      std::memcpy(&bits, weight + 4 * i, 4);
      return bits;
    }
    uint16_t high;
    int16_t low;
    std::memcpy(&high, weight + 2 * i, 2);
    std::memcpy(&low, remainder + 2 * i, 2);
    return Join(high, low);
  }

  static bool IsNan(uint32_t bits) { return MagnitudeBits(bits) > kBadMasterF32; }

  /// Equal bits, where a NaN may have any payload: there the run ends anyway.
  static void ExpectSameFloats(const Tensor& tensor) {
    int64_t different = 0;
    for (int64_t i = 0; i < tensor.count; ++i) {
      uint32_t cpu, cuda;
      std::memcpy(&cpu, tensor.CpuResult() + 4 * i, 4);
      std::memcpy(&cuda, tensor.cuda.data() + 4 * i, 4);
      different += cpu != cuda && !(IsNan(cpu) && IsNan(cuda));
    }
    EXPECT_EQ(different, 0) << "of " << tensor.count;
  }

  void ExpectSameState(const State& s) {
    int64_t different = 0;
    for (int64_t i = 0; i < s.weight->count; ++i) {
      const uint32_t cpu =
          MasterBits(s, s.weight->CpuResult(), s.remainder->CpuResult(), i);
      const uint32_t cuda =
          MasterBits(s, s.weight->cuda.data(), s.remainder->cuda.data(), i);
      different += cpu != cuda && !(IsNan(cpu) && IsNan(cuda));
    }
    EXPECT_EQ(different, 0) << "of " << s.weight->count << " masters";
    ExpectSameFloats(*s.moment1);
    ExpectSameFloats(*s.moment2);
    ExpectEqualBits(*s.first_bad);
  }
};

TEST_F(CudaAdamWTest, EveryBitIsTheSameAtAwkwardSizes) {
  AdamWScalars coupled = kScalars;
  coupled.l2 = 0.01f;
  coupled.decay_factor = 1.0f;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t count : {1, 7, 8, 2047, 2048, 20'008}) {
      for (const AdamWScalars& scalars : {kScalars, coupled}) {
        const State s = MakeState(count, dtype, 77 * count);
        Run([&](Side side) { return Op(s, side, dtype, false, scalars); });
        ExpectSameState(s);
      }
    }
  }
}

TEST_F(CudaAdamWTest, SpeculationWritesTheWeightOfTheUpdateAndNothingElse) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const int64_t count = 20'008;
    const State s = MakeState(count, dtype, 5);
    Run([&](Side side) { return Op(s, side, dtype, false, kScalars); });
    const std::vector<std::byte> weight = s.weight->cuda;
    const std::vector<std::byte> remainder = s.remainder->cuda;
    Run([&](Side side) { return Op(s, side, dtype, true, kScalars); });
    for (const Tensor* tensor : {s.weight, s.remainder, s.moment1, s.moment2}) {
      EXPECT_EQ(tensor->cuda, tensor->initial);
    }
    const int64_t bytes = SizeOf(dtype);
    int64_t different = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (IsNan(MasterBits(s, weight.data(), remainder.data(), i))) continue;
      different += std::memcmp(s.speculated->cuda.data() + i * bytes,
                               weight.data() + i * bytes, bytes) != 0;
    }
    EXPECT_EQ(different, 0);
  }
}

TEST_F(CudaAdamWTest, TwoStepsInOnePassHaveTheSameBits) {
  AdamWScalars next = kScalars;
  next.step_size *= 0.5f;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t count : {7, 20'008}) {
      const State s = MakeState(count, dtype, 6);
      // Any bits will do for the second gradient: the weights', which are its like.
      Tensor& gradient = Unwritten(count, dtype);
      gradient.initial = s.weight->initial;
      Run([&](Side side) {
        AdamW op = Op(s, side, dtype, true, kScalars);
        op.next_gradient = gradient.On(side);
        op.kept_gradient = s.gradient->On(side);
        op.next_scalars = next;
        return op;
      });
      ExpectSameState(s);
      EXPECT_EQ(s.gradient->cuda, gradient.initial);
      int64_t different = 0;
      const int64_t bytes = SizeOf(dtype);
      for (int64_t i = 0; i < count; ++i) {
        uint32_t cpu = 0, cuda = 0;
        std::memcpy(&cpu, s.speculated->CpuResult() + i * bytes, bytes);
        std::memcpy(&cuda, s.speculated->cuda.data() + i * bytes, bytes);
        // A NaN's payload differs, and a bf16 of it may be anything.
        const int shift = dtype == DType::kF32 ? 0 : 16;
        different += cpu != cuda && !IsNan(cpu << shift);
      }
      EXPECT_EQ(different, 0) << "of " << count;
    }
  }
}

TEST_F(CudaAdamWTest, TheLowestBadElementIsNamed) {
  const int64_t count = 50'000;
  const State s = MakeState(count, DType::kBF16, 9);
  for (int64_t i = 0; i < count; ++i) {
    s.gradient->Set(i, 0.5);
    s.moment1->Set(i, 0.1);
    s.moment2->Set(i, 0.1);
    const SplitMaster split = Split(std::bit_cast<uint32_t>(1.5f));
    std::memcpy(s.weight->initial.data() + 2 * i, &split.weight, 2);
    std::memcpy(s.remainder->initial.data() + 2 * i, &split.remainder, 2);
  }
  for (const int64_t i : {40'001, 12'345, 49'999}) s.gradient->Set(i, INFINITY);
  Run([&](Side side) { return Op(s, side, DType::kBF16, false, kScalars); });
  int64_t first_bad;
  std::memcpy(&first_bad, s.first_bad->cuda.data(), 8);
  EXPECT_EQ(first_bad, 1000 + 12'345);
}

TEST_F(CudaAdamWTest, AHundredMillionElementsHaveTheSameBits) {
  const int64_t chunk = int64_t{1} << 22;
  for (int64_t done = 0; done < 100'000'000; done += chunk) {
    const DType dtype = done / chunk % 4 == 3 ? DType::kF32 : DType::kBF16;
    const State s = MakeState(chunk, dtype, 8 * done);
    Run([&](Side side) { return Op(s, side, dtype, false, kScalars); });
    ExpectSameState(s);
    ASSERT_FALSE(HasFailure()) << "in elements from " << done << " on";
  }
}

}  // namespace
}  // namespace strata
