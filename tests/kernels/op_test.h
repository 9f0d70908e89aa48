/// What the tests of operations share: CPU kernels of three threads, and a stream.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kernels/ops.h"
#include "tests/support/inline_stream.h"
#include "tests/support/test_tensor.h"

namespace strata {

/// Around the widths of vectors and blocks.
inline const std::vector<int64_t> kAwkwardSizes = {1, 2, 15, 31, 33, 64, 130};
inline const std::vector<DType> kBothTypes = {DType::kF32, DType::kBF16};

class OpTest : public ::testing::Test {
 protected:
  static std::unique_ptr<Kernels> Create(int threads) {
    return *CreateKernels(DeviceKind::kCpu, {.threads = threads});
  }

  template <typename Op>
  void RunOp(const Op& op) {
    ASSERT_EQ(kernels_->Run(stream_, op), absl::OkStatus());
  }

  InlineStream stream_;
  std::unique_ptr<Kernels> kernels_ = Create(3);
};

/// sum of a[i] * b[i]
inline double Inner(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace strata
