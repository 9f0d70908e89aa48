#include "kernels/cpu/rows.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/cpu/vectorize.h"
#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int kLanes = 16;

STRATA_VECTORIZE void Widen(float* __restrict target, const uint16_t* __restrict source,
                            int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = FloatOfBf16(source[i]);
}

STRATA_VECTORIZE void Narrow(uint16_t* __restrict target,
                             const float* __restrict source, int64_t count) {
  for (int64_t i = 0; i < count; ++i) target[i] = Bf16OfFloat(source[i]);
}

STRATA_VECTORIZE void DotLanes(float* __restrict lanes, const float* __restrict a,
                               const float* __restrict b, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int lane = 0; i + lane < count; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  std::copy_n(sums, kLanes, lanes);
}

STRATA_VECTORIZE void SumLanes(float* __restrict lanes, const float* __restrict values,
                               int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane];
  }
  for (int lane = 0; i + lane < count; ++lane) sums[lane] += values[i + lane];
  std::copy_n(sums, kLanes, lanes);
}

STRATA_VECTORIZE void LargestLanes(float* __restrict lanes,
                                   const float* __restrict values, int64_t count) {
  float largest[kLanes];
  std::fill_n(largest, kLanes, -std::numeric_limits<float>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = values[i + lane];
      largest[lane] = value > largest[lane] ? value : largest[lane];
    }
  }
  for (int lane = 0; i + lane < count; ++lane) {
    const float value = values[i + lane];
    largest[lane] = value > largest[lane] ? value : largest[lane];
  }
  std::copy_n(largest, kLanes, lanes);
}

float AddHalves(float* lanes) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

}  // namespace

void LoadRow(float* target, const void* source, DType dtype, int64_t first,
             int64_t count) {
  if (dtype == DType::kF32) {
    std::copy_n(static_cast<const float*>(source) + first, count, target);
  } else {
    Widen(target, static_cast<const uint16_t*>(source) + first, count);
  }
}

void StoreRow(void* target, DType dtype, int64_t first, const float* source,
              int64_t count) {
  if (dtype == DType::kF32) {
    std::copy_n(source, count, static_cast<float*>(target) + first);
  } else {
    Narrow(static_cast<uint16_t*>(target) + first, source, count);
  }
}

float Sum(const float* values, int64_t count) {
  float lanes[kLanes];
  SumLanes(lanes, values, count);
  return AddHalves(lanes);
}

float Dot(const float* a, const float* b, int64_t count) {
  float lanes[kLanes];
  DotLanes(lanes, a, b, count);
  return AddHalves(lanes);
}

float Largest(const float* values, int64_t count) {
  float lanes[kLanes];
  LargestLanes(lanes, values, count);
  return *std::max_element(lanes, lanes + kLanes);
}

std::span<float> ThreadScratch(int64_t count) {
  thread_local std::vector<float> scratch;
  if (static_cast<int64_t>(scratch.size()) < count) {
    scratch.resize(static_cast<size_t>(count));
  }
  return {scratch.data(), static_cast<size_t>(count)};
}

int64_t RowGrain(int64_t width) {
  constexpr int64_t kElements = 16 * 1024;
  return std::max<int64_t>(1, kElements / std::max<int64_t>(1, width));
}

}  // namespace strata
