/// Runs one operation on the CPU and on a card with the same bytes, and compares.
///
/// Every tensor lies between guards on both sides, outputs start as NaNs, and the card
/// runs everything twice: a write out of bounds, an element that is not written and a
/// result that differs from run to run all fail, without a word in the test.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "kernels/ops.h"
#include "runtime/base/types.h"
#include "runtime/device/device.h"

namespace strata {

enum class Side { kCpu, kCuda };

/// Converts to the pointer type that the operation's field has.
struct Address {
  std::byte* bytes;
  template <typename T>
  operator T*() const {  // NOLINT(google-explicit-constructor)
    return reinterpret_cast<T*>(bytes);
  }
};

/// Elements on both sides. Owned by the test; what handles share.
struct Tensor {
  static constexpr int64_t kGuardBytes = 256;
  static constexpr std::byte kGuard{0xA5};

  int64_t count = 0;
  int64_t element_bytes = 4;
  DType dtype = DType::kF32;       // of values, where they are floats
  std::vector<std::byte> initial;  // before each run
  std::vector<std::byte> cpu;      // results; the CPU computes here, guards around
  std::vector<std::byte> cuda;     // results
  std::byte* device = nullptr;     // on the card, guards around

  int64_t size_bytes() const { return count * element_bytes; }
  /// The element `first` of the tensor on `side`.
  Address On(Side side, int64_t first = 0);
  double CpuValue(int64_t i) const { return Value(CpuResult(), i); }
  double CudaValue(int64_t i) const { return Value(cuda.data(), i); }
  const std::byte* CpuResult() const;
  double Value(const std::byte* data, int64_t i) const;
  void Set(int64_t i, double value);
  /// What the CPU has computed becomes what the next run starts with.
  void KeepCpuResult();
};

/// For each element |cuda - cpu| <= relative * |cpu| + absolute * rms(cpu), and over
/// all of them rms(cuda - cpu) <= overall * rms(cpu), with rms the root mean square.
struct Tolerance {
  double relative;
  double absolute;
  double overall;
};
/// One rounding to `dtype`, and fp32 sums in another order.
inline Tolerance RoundingOf(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{1e-5, 1e-5, 1e-6}
                              : Tolerance{0x1p-7, 1e-4, 1e-3};
}

class TwoSides : public testing::Test {
 protected:
  TwoSides();

  /// NaNs.
  Tensor& Unwritten(int64_t count, DType dtype);
  /// Normally distributed.
  Tensor& Normal(int64_t count, DType dtype, double scale = 1.0, double mean = 0.0);
  Tensor& Integers(const std::vector<int32_t>& values);
  /// Uniform in [0, limit).
  Tensor& RandomIntegers(int64_t count, int32_t limit);
  Tensor& Bytes(int64_t size_bytes);
  /// Forgets all tensors: the start of another case.
  void NextCase();

  /// Runs what `make` gives for each side: the CPU once, the card twice.
  template <typename MakeOp>
  void Run(MakeOp make) {
    CopyInitialToCpu();
    ASSERT_TRUE(cpu().Run(cpu_stream(), make(Side::kCpu)).ok());
    RunCuda(make);
    std::vector<std::vector<std::byte>> first;
    for (const auto& tensor : tensors_) first.push_back(tensor->cuda);
    RunCuda(make);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      ASSERT_EQ(first[i], tensors_[i]->cuda) << "tensor " << i << " changed its bits";
    }
    CheckGuards();
  }

  /// Runs on the card only.
  template <typename MakeOp>
  void RunCuda(MakeOp make) {
    Upload();
    auto op = make(Side::kCuda);
    const absl::Status status = RunTask(&RunOp<decltype(op)>, &op);
    ASSERT_TRUE(status.ok()) << status;
    Download();
  }

  /// What the card's kernels say to an operation that they should not accept.
  template <typename Op>
  absl::Status Refusal(Op op) {
    return cuda().Run(cuda_stream(), op);
  }

  void ExpectClose(const Tensor& tensor, Tolerance tolerance) const;
  void ExpectEqualBits(const Tensor& tensor) const;

  Kernels& cpu() const;
  Kernels& cuda() const;
  Stream& cpu_stream() const;
  Stream& cuda_stream() const;

 private:
  template <typename Op>
  static absl::Status RunOp(void* op, uint32_t, Stream& stream) {
    return CudaKernels().Run(stream, *static_cast<Op*>(op));
  }
  static Kernels& CudaKernels();

  Tensor& Make(int64_t count, int64_t element_bytes, DType dtype);
  void CopyInitialToCpu();
  void Upload();
  void Download();
  void CheckGuards() const;
  absl::Status RunTask(absl::Status (*run)(void*, uint32_t, Stream&), void* op);

  std::mt19937_64 random_{20240521};
  std::vector<std::unique_ptr<Tensor>> tensors_;
  int64_t device_used_ = 0;  // bytes
};

}  // namespace strata
