#include "bench/kernel_timer.h"

#include <absl/strings/str_format.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <utility>

#include "runtime/base/float16.h"
#include "runtime/base/types.h"
#include "runtime/device/cuda_device.h"

namespace strata {
namespace {

constexpr int kRepeats = 20;

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Require(absl::StatusOr<T> value) {
  Require(value.status());
  return *std::move(value);
}

std::vector<std::byte> Pattern(DType dtype) {
  constexpr int64_t kCount = 4 << 20;
  std::vector<std::byte> bytes(kCount * SizeOf(dtype));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 1.0f);
  for (int64_t i = 0; i < kCount; ++i) {
    const float value = normal(random);
    const uint16_t half = Bf16FromFloat(value);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

}  // namespace

KernelTimer::KernelTimer(std::string filter)
    : filter_(std::move(filter)),
      device_(Require(CreateCudaDevice(0))),
      stream_(Require(device_->CreateStream("bench", 64))),
      kernels_(Require(CreateKernels(DeviceKind::kCuda, {}))),
      floats_(Pattern(DType::kF32)),
      halves_(Pattern(DType::kBF16)) {
  std::printf("%s\n", std::string(device_->name()).c_str());
  MeasureCeilings();
  std::printf("%-34s %10s %9s %9s %8s\n", "kernel", "us", "TFLOP/s", "GB/s",
              "of floor");
}

void* KernelTimer::Values(int64_t count, DType dtype) {
  std::byte* const data = Allocate(count * SizeOf(dtype));
  const std::vector<std::byte>& pattern = dtype == DType::kF32 ? floats_ : halves_;
  const int64_t size_bytes = count * SizeOf(dtype);
  const int64_t step = static_cast<int64_t>(pattern.size());
  for (int64_t at = 0; at < size_bytes; at += step) {
    stream_->Copy(data + at, pattern.data(), std::min(step, size_bytes - at));
  }
  Require(stream_->Synchronize());
  return data;
}

int32_t* KernelTimer::Integers(int64_t count, int32_t limit) {
  std::vector<int32_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    values[i] = static_cast<int32_t>(static_cast<uint64_t>(i) * 2654435761u %
                                     static_cast<uint32_t>(limit));
  }
  std::byte* const data = Allocate(count * 4);
  stream_->Copy(data, reinterpret_cast<const std::byte*>(values.data()), count * 4);
  Require(stream_->Synchronize());
  return reinterpret_cast<int32_t*>(data);
}

std::byte* KernelTimer::Allocate(int64_t size_bytes) {
  buffers_.push_back(Require(device_->Allocate(MemoryKind::kDevice, size_bytes)));
  return buffers_.back().data();
}

double KernelTimer::MedianSeconds(const std::function<absl::Status()>& run) {
  constexpr int kWarmUp = 3;
  const auto native = static_cast<cudaStream_t>(stream_->native_handle());
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;  // milliseconds
  for (int i = 0; i < kWarmUp + kRepeats; ++i) {
    cudaEventRecord(begin, native);
    Require(run());
    cudaEventRecord(end, native);
    Require(stream_->Synchronize());
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, begin, end);
    if (i >= kWarmUp) times.push_back(milliseconds);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::nth_element(times.begin(), times.begin() + kRepeats / 2, times.end());
  return times[kRepeats / 2] / 1e3;
}

void KernelTimer::MeasureCeilings() {
  constexpr int64_t kBytes = 2 * kGiB;
  std::byte* const source = Allocate(kBytes);
  std::byte* const target = Allocate(kBytes);
  peak_bytes_ = 2.0 * kBytes / MedianSeconds([&] {
                  stream_->Copy(target, source, kBytes);
                  return absl::OkStatus();
                });
  FreeAll();
  constexpr int64_t kSize = 8192;
  const Matmul product{.c = Values(kSize * kSize, DType::kBF16),
                       .a = Values(kSize * kSize, DType::kBF16),
                       .b = Values(kSize * kSize, DType::kBF16),
                       .m = kSize,
                       .n = kSize,
                       .k = kSize,
                       .dtype = DType::kBF16,
                       .c_dtype = DType::kBF16,
                       .workspace = MatmulWorkspace()};
  peak_operations_ = 2.0 * kSize * kSize * kSize /
                     MedianSeconds([&] { return kernels_->Run(*stream_, product); });
  FreeAll();
  std::printf("ceilings: copy %.0f GB/s, bf16 product %.0f TFLOP/s\n",
              peak_bytes_ / 1e9, peak_operations_ / 1e12);
}

void KernelTimer::Report(const std::string& name, Work work, double seconds) const {
  const double floor =
      std::max(work.operations / peak_operations_, work.bytes / peak_bytes_);
  std::printf("%-34s %10.1f %9.1f %9.0f %7.0f%%\n", name.c_str(), seconds * 1e6,
              work.operations / seconds / 1e12, work.bytes / seconds / 1e9,
              100 * floor / seconds);
  std::fflush(stdout);
}

}  // namespace strata
