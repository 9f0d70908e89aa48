// One AdamW step over a range of elements. Blocks go through buffers in the first-level
// cache, so that the formula's loop sees only fp32 and vectorises whatever the formats.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/adamw_math.h"
#include "kernels/bf16.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vectorize.h"
#include "kernels/master.h"

namespace strata {
namespace {

constexpr int64_t kBlock = 512;          // elements
constexpr int64_t kGrain = 64 * kBlock;  // elements per piece of parallel work

STRATA_VECTORIZE void JoinBlock(float* __restrict master,
                                const uint16_t* __restrict weight,
                                const int16_t* __restrict remainder, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    master[i] = FloatOfBits(Join(weight[i], remainder[i]));
  }
}

STRATA_VECTORIZE void SplitBlock(uint16_t* __restrict weight,
                                 int16_t* __restrict remainder,
                                 const float* __restrict master, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const SplitMaster split = Split(BitsOfFloat(master[i]));
    weight[i] = split.weight;
    remainder[i] = split.remainder;
  }
}

STRATA_VECTORIZE void RoundBlock(uint16_t* __restrict weight,
                                 const float* __restrict master, int64_t count) {
  for (int64_t i = 0; i < count; ++i) weight[i] = Split(BitsOfFloat(master[i])).weight;
}

#if STRATA_HAS_CLONES
/// root / s.sqrt_correction2 without the divider, which bounds the loop: one quotient
/// and the root are enough for it. With y = 1/c rounded to nearest and q an ulp from
/// root/c, q + y (root - c q) is root/c rounded to nearest (P. Markstein, "Computation
/// of elementary functions on the IBM RISC System/6000 processor", 1990); the first
/// such step gets q there. A root is 0 or at least 2^-75, so no residual is lost.
struct CorrectByMultiplication {
  float operator()(const AdamWScalars& s, float root) const {
    const float c = s.sqrt_correction2;
    const float y = 1.0f / c;
    const float q0 = root * y;
    const float q1 = __builtin_fmaf(__builtin_fmaf(-c, q0, root), y, q0);
    const float q2 = __builtin_fmaf(__builtin_fmaf(-c, q1, root), y, q1);
    return q0 == std::numeric_limits<float>::infinity() ? q0 : q2;
  }
};
using Correct = CorrectByMultiplication;
#else
using Correct = adamw::CorrectByDivision;
#endif

STRATA_VECTORIZE void StepBlock(float* __restrict master, float* __restrict moment1,
                                float* __restrict moment2,
                                const float* __restrict gradient, AdamWScalars scalars,
                                int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const adamw::Element next = adamw::Step(
        scalars, gradient[i], {master[i], moment1[i], moment2[i]}, Correct());
    master[i] = next.master;
    moment1[i] = next.moment1;
    moment2[i] = next.moment2;
  }
}

/// The moments only go into the new weight and stay as they are.
STRATA_VECTORIZE void SpeculateBlock(float* __restrict master,
                                     const float* __restrict moment1,
                                     const float* __restrict moment2,
                                     const float* __restrict gradient,
                                     AdamWScalars scalars, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    master[i] = adamw::Step(scalars, gradient[i], {master[i], moment1[i], moment2[i]},
                            Correct())
                    .master;
  }
}

STRATA_VECTORIZE uint32_t LargestMagnitude(const float* master, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, MagnitudeBits(BitsOfFloat(master[i])));
  }
  return largest;
}

void LowerTo(int64_t* target, int64_t value) {
  std::atomic_ref<int64_t> lowest(*target);
  int64_t seen = lowest.load(std::memory_order_relaxed);
  while (value < seen &&
         !lowest.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

void ReportBadMasters(const AdamW& op, const float* master, int64_t first,
                      int64_t count) {
  const uint32_t limit = op.dtype == DType::kBF16 ? kBadMasterBf16 : kBadMasterF32;
  if (LargestMagnitude(master, count) < limit) return;
  int64_t i = 0;
  while (MagnitudeBits(BitsOfFloat(master[i])) < limit) ++i;
  LowerTo(op.first_bad, op.first_element + first + i);
}

void StoreMaster(const AdamW& op, const float* master, int64_t first, int64_t count) {
  if (op.dtype == DType::kF32) {
    std::copy_n(master, count, static_cast<float*>(op.weight) + first);
  } else {
    SplitBlock(static_cast<uint16_t*>(op.weight) + first, op.remainder + first, master,
               count);
  }
}

void StoreSpeculated(const AdamW& op, const float* master, int64_t first,
                     int64_t count) {
  if (op.dtype == DType::kF32) {
    std::copy_n(master, count, static_cast<float*>(op.speculated) + first);
  } else {
    RoundBlock(static_cast<uint16_t*>(op.speculated) + first, master, count);
  }
}

void KeepGradient(const AdamW& op, int64_t first, int64_t count) {
  const size_t unit = static_cast<size_t>(SizeOf(op.dtype));
  const size_t offset = static_cast<size_t>(first) * unit;
  std::memcpy(static_cast<std::byte*>(op.kept_gradient) + offset,
              static_cast<const std::byte*>(op.next_gradient) + offset,
              static_cast<size_t>(count) * unit);
}

void UpdateBlock(const AdamW& op, int64_t first, int64_t count) {
  float master[kBlock];
  float gradient[kBlock];
  LoadRow(gradient, op.gradient, op.dtype, first, count);
  if (op.dtype == DType::kF32) {
    LoadRow(master, op.weight, op.dtype, first, count);
  } else {
    JoinBlock(master, static_cast<const uint16_t*>(op.weight) + first,
              op.remainder + first, count);
  }
  float* const moment1 = op.moment1 + first;
  float* const moment2 = op.moment2 + first;
  const bool two_steps = op.next_gradient != nullptr;
  if (op.speculated == nullptr || two_steps) {
    StepBlock(master, moment1, moment2, gradient, op.scalars, count);
    if (op.first_bad != nullptr) ReportBadMasters(op, master, first, count);
    StoreMaster(op, master, first, count);
  }
  if (op.speculated == nullptr) return;
  if (two_steps) LoadRow(gradient, op.next_gradient, op.dtype, first, count);
  SpeculateBlock(master, moment1, moment2, gradient,
                 two_steps ? op.next_scalars : op.scalars, count);
  StoreSpeculated(op, master, first, count);
  if (op.kept_gradient != nullptr) KeepGradient(op, first, count);
}

}  // namespace

void Compute(ThreadPool& pool, const AdamW& op) {
  pool.RunRanges(op.count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kBlock) {
      UpdateBlock(op, first, std::min(kBlock, end - first));
    }
  });
}

}  // namespace strata
