/// Numbers for an operation under test, with sentinels before and behind them: a kernel
/// that writes outside of its output fails the test, and one that leaves part of it
/// unwritten leaves a NaN.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/base/float16.h"
#include "runtime/base/status.h"
#include "runtime/base/types.h"

namespace strata {

class TestTensor {
 public:
  /// `count` NaNs.
  TestTensor(DType dtype, int64_t count)
      : dtype_(dtype),
        size_bytes_(SizeBytes(dtype, count)),
        bytes_(size_bytes_ + 2 * kGuardBytes + kAlignment, kGuard) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuardBytes;
    data_ =
        bytes_.data() + kGuardBytes + (kAlignment - address % kAlignment) % kAlignment;
    std::memset(data_, 0xFF, size_bytes_);
  }
  TestTensor(TestTensor&& other) = default;
  TestTensor& operator=(TestTensor&& other) = default;
  ~TestTensor() {
    if (bytes_.empty()) return;  // moved from
    const auto intact = [](std::byte byte) { return byte == kGuard; };
    EXPECT_TRUE(std::all_of(bytes_.data(), data_, intact))
        << "written before the start";
    EXPECT_TRUE(std::all_of(data_ + size_bytes_, bytes_.data() + bytes_.size(), intact))
        << "written beyond the end";
  }

  /// Evenly spread over [center - spread, center + spread], rounded to `dtype`.
  static TestTensor Random(DType dtype, int64_t count, int seed, double center = 0,
                           double spread = 1) {
    TestTensor tensor(dtype, count);
    std::mt19937 random(static_cast<uint32_t>(seed));
    for (int64_t i = 0; i < count; ++i) {
      tensor.Set(i,
                 center + spread * (static_cast<double>(random()) / 2147483648.0 - 1));
    }
    return tensor;
  }
  static TestTensor Zeros(DType dtype, int64_t count) {
    TestTensor tensor(dtype, count);
    std::memset(tensor.data_, 0, tensor.size_bytes_);
    return tensor;
  }
  TestTensor Copy() const {
    TestTensor copy(dtype_, count());
    std::memcpy(copy.data_, data_, size_bytes_);
    return copy;
  }

  DType dtype() const { return dtype_; }
  int64_t count() const { return static_cast<int64_t>(size_bytes_) / SizeOf(dtype_); }
  void* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  std::byte* bytes() const { return data_; }

  double operator[](int64_t i) const {
    return dtype_ == DType::kF32
               ? floats()[i]
               : FloatFromBf16(reinterpret_cast<const uint16_t*>(data_)[i]);
  }
  void Set(int64_t i, double value) {
    if (dtype_ == DType::kF32) {
      floats()[i] = static_cast<float>(value);
    } else {
      reinterpret_cast<uint16_t*>(data_)[i] = Bf16FromFloat(static_cast<float>(value));
    }
  }
  std::vector<double> Values() const {
    std::vector<double> values(static_cast<size_t>(count()));
    for (int64_t i = 0; i < count(); ++i) values[static_cast<size_t>(i)] = (*this)[i];
    return values;
  }
  bool operator==(const TestTensor& other) const {
    return size_bytes_ == other.size_bytes_ &&
           std::memcmp(data_, other.data_, size_bytes_) == 0;
  }

 private:
  static size_t SizeBytes(DType dtype, int64_t count) {
    STRATA_CHECK(count >= 0);
    return static_cast<size_t>(count * SizeOf(dtype));
  }

  static constexpr size_t kGuardBytes = 64;
  static constexpr size_t kAlignment = 256;
  static constexpr std::byte kGuard{0xA5};

  DType dtype_;
  size_t size_bytes_;
  std::vector<std::byte> bytes_;
  std::byte* data_;
};

/// Every element within `tolerance`, relative to the largest expected magnitude, plus
/// one rounding to BF16 where the tensor is BF16.
inline void ExpectNear(const TestTensor& actual, const std::vector<double>& expected,
                       double tolerance) {
  ASSERT_EQ(actual.count(), static_cast<int64_t>(expected.size()));
  constexpr double kNoise = 1e-10;  // of finite differences, where the truth is 0
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  const double rounding = actual.dtype() == DType::kBF16 ? 1.0 / 256 : 0;
  for (int64_t i = 0; i < actual.count(); ++i) {
    const double value = expected[static_cast<size_t>(i)];
    ASSERT_NEAR(actual[i], value,
                tolerance * largest + rounding * std::abs(value) + kNoise)
        << "element " << i;
  }
}

/// d f / d x[i] by central differences, in double.
template <typename Function>
double Derivative(const Function& f, std::vector<double>& x, size_t i) {
  constexpr double kStep = 1e-5;
  const double middle = x[i];
  x[i] = middle + kStep;
  const double above = f();
  x[i] = middle - kStep;
  const double below = f();
  x[i] = middle;
  return (above - below) / (2 * kStep);
}

}  // namespace strata
