#include "tests/kernels/two_sides.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/base/float16.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu_device.h"
#include "runtime/device/cuda_device.h"

namespace strata {
namespace {

constexpr int64_t kArenaBytes = 512 * kMiB;
constexpr int64_t kGuardBytes = Tensor::kGuardBytes;

template <typename T>
T Require(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "these tests need a card: %s\n",
                 value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

/// What all tests share. Never destroyed: the CUDA runtime is torn down before statics.
struct Devices {
  std::unique_ptr<Device> cpu = CreateCpuDevice({});
  std::unique_ptr<Device> cuda = Require(CreateCudaDevice(0));
  std::unique_ptr<Stream> cpu_stream = Require(cpu->CreateStream("cpu", 1));
  std::unique_ptr<Stream> cuda_stream = Require(cuda->CreateStream("compute", 64));
  std::unique_ptr<Kernels> cpu_kernels =
      Require(CreateKernels(DeviceKind::kCpu, {.threads = 2}));
  std::unique_ptr<Kernels> cuda_kernels = Require(CreateKernels(DeviceKind::kCuda, {}));
  Buffer arena = Require(cuda->Allocate(MemoryKind::kDevice, kArenaBytes));

  static Devices& Get() {
    static Devices* const devices = new Devices;
    return *devices;
  }
};

/// The first byte after the guard, at a multiple of 256 as ops.h promises.
std::byte* AfterGuard(std::vector<std::byte>& memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data()) + kGuardBytes;
  return reinterpret_cast<std::byte*>((address + 255) / 256 * 256);
}

bool IsGuard(const std::byte* bytes, int64_t size_bytes) {
  return std::all_of(bytes, bytes + size_bytes,
                     [](std::byte byte) { return byte == Tensor::kGuard; });
}

}  // namespace

Address Tensor::On(Side side, int64_t first) {
  std::byte* const start = side == Side::kCuda ? device : AfterGuard(cpu);
  return {start + first * element_bytes};
}

const std::byte* Tensor::CpuResult() const {
  return AfterGuard(const_cast<std::vector<std::byte>&>(cpu));
}

double Tensor::Value(const std::byte* data, int64_t i) const {
  if (element_bytes == 2) {
    uint16_t bits;
    std::memcpy(&bits, data + 2 * i, 2);
    return FloatFromBf16(bits);
  }
  float value;
  std::memcpy(&value, data + 4 * i, 4);
  return value;
}

void Tensor::Set(int64_t i, double value) {
  const float rounded = static_cast<float>(value);
  if (dtype == DType::kBF16) {
    const uint16_t bits = Bf16FromFloat(rounded);
    std::memcpy(initial.data() + 2 * i, &bits, 2);
  } else {
    std::memcpy(initial.data() + 4 * i, &rounded, 4);
  }
}

void Tensor::KeepCpuResult() {
  std::memcpy(initial.data(), CpuResult(), initial.size());
}

TwoSides::TwoSides() { Devices::Get(); }

Kernels& TwoSides::CudaKernels() { return *Devices::Get().cuda_kernels; }
Kernels& TwoSides::cpu() const { return *Devices::Get().cpu_kernels; }
Kernels& TwoSides::cuda() const { return *Devices::Get().cuda_kernels; }
Stream& TwoSides::cpu_stream() const { return *Devices::Get().cpu_stream; }
Stream& TwoSides::cuda_stream() const { return *Devices::Get().cuda_stream; }

void TwoSides::NextCase() {
  tensors_.clear();
  device_used_ = 0;
}

Tensor& TwoSides::Make(int64_t count, int64_t element_bytes, DType dtype) {
  tensors_.push_back(std::make_unique<Tensor>());
  Tensor& tensor = *tensors_.back();
  tensor.count = count;
  tensor.element_bytes = element_bytes;
  tensor.dtype = dtype;
  tensor.initial.assign(tensor.size_bytes(), std::byte{0xFF});
  tensor.cpu.resize(tensor.size_bytes() + 2 * kGuardBytes + 256);
  tensor.device = Devices::Get().arena.data() + device_used_ + kGuardBytes;
  device_used_ += AlignUp(tensor.size_bytes(), 256) + 2 * kGuardBytes;
  STRATA_CHECK(device_used_ <= kArenaBytes);
  return tensor;
}

Tensor& TwoSides::Unwritten(int64_t count, DType dtype) {
  return Make(count, SizeOf(dtype), dtype);
}

Tensor& TwoSides::Normal(int64_t count, DType dtype, double scale, double mean) {
  Tensor& tensor = Unwritten(count, dtype);
  std::normal_distribution<float> normal(static_cast<float>(mean),
                                         static_cast<float>(scale));
  for (int64_t i = 0; i < count; ++i) tensor.Set(i, normal(random_));
  return tensor;
}

Tensor& TwoSides::Integers(const std::vector<int32_t>& values) {
  Tensor& tensor = Make(static_cast<int64_t>(values.size()), 4, DType::kF32);
  std::memcpy(tensor.initial.data(), values.data(), tensor.initial.size());
  return tensor;
}

Tensor& TwoSides::RandomIntegers(int64_t count, int32_t limit) {
  std::vector<int32_t> values(count);
  std::uniform_int_distribution<int32_t> uniform(0, limit - 1);
  for (int32_t& value : values) value = uniform(random_);
  return Integers(values);
}

Tensor& TwoSides::Bytes(int64_t size_bytes) {
  return Make(CeilDiv(size_bytes, 8), 8, DType::kF32);
}

void TwoSides::CopyInitialToCpu() {
  for (const auto& tensor : tensors_) {
    std::fill(tensor->cpu.begin(), tensor->cpu.end(), Tensor::kGuard);
    std::memcpy(AfterGuard(tensor->cpu), tensor->initial.data(),
                tensor->initial.size());
  }
}

void TwoSides::Upload() {
  for (const auto& tensor : tensors_) {
    tensor->cuda.assign(tensor->size_bytes() + 2 * kGuardBytes, Tensor::kGuard);
    std::memcpy(tensor->cuda.data() + kGuardBytes, tensor->initial.data(),
                tensor->initial.size());
    cuda_stream().Copy(tensor->device - kGuardBytes, tensor->cuda.data(),
                       static_cast<int64_t>(tensor->cuda.size()));
  }
  const absl::Status status = cuda_stream().Synchronize();
  ASSERT_TRUE(status.ok()) << status;
}

void TwoSides::Download() {
  for (const auto& tensor : tensors_) {
    cuda_stream().Copy(tensor->cuda.data(), tensor->device - kGuardBytes,
                       static_cast<int64_t>(tensor->cuda.size()));
  }
  const absl::Status status = cuda_stream().Synchronize();
  ASSERT_TRUE(status.ok()) << status;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::vector<std::byte>& cuda = tensors_[i]->cuda;
    EXPECT_TRUE(IsGuard(cuda.data(), kGuardBytes)) << "write before tensor " << i;
    EXPECT_TRUE(IsGuard(&*cuda.end() - kGuardBytes, kGuardBytes))
        << "write after tensor " << i;
    cuda = {cuda.begin() + kGuardBytes, cuda.end() - kGuardBytes};
  }
}

void TwoSides::CheckGuards() const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const Tensor& tensor = *tensors_[i];
    const std::byte* const start = tensor.CpuResult();
    EXPECT_TRUE(IsGuard(start - kGuardBytes, kGuardBytes)) << "CPU, tensor " << i;
    EXPECT_TRUE(IsGuard(start + tensor.size_bytes(), kGuardBytes))
        << "CPU, tensor " << i;
  }
}

absl::Status TwoSides::RunTask(absl::Status (*run)(void*, uint32_t, Stream&),
                               void* op) {
  cuda_stream().Run({.run = run, .context = op});
  return cuda_stream().Synchronize();
}

void TwoSides::ExpectClose(const Tensor& tensor, Tolerance tolerance) const {
  double squares = 0.0;
  double error_squares = 0.0;
  int64_t written = 0;
  for (int64_t i = 0; i < tensor.count; ++i) {
    const double cpu = tensor.CpuValue(i);
    // Neither side writes what lies between the rows of a strided tensor.
    if (std::isnan(cpu) && std::isnan(tensor.CudaValue(i))) continue;
    squares += cpu * cpu;
    error_squares += (tensor.CudaValue(i) - cpu) * (tensor.CudaValue(i) - cpu);
    ++written;
  }
  if (written == 0) return;
  EXPECT_LE(std::sqrt(error_squares), tolerance.overall * std::sqrt(squares));
  const double scale = std::sqrt(squares / static_cast<double>(written));
  int shown = 0;
  for (int64_t i = 0; i < tensor.count && shown < 5; ++i) {
    const double cpu = tensor.CpuValue(i);
    const double cuda = tensor.CudaValue(i);
    if (std::isnan(cpu) && std::isnan(cuda)) continue;
    const double limit =
        tolerance.relative * std::abs(cpu) + tolerance.absolute * scale;
    if (std::abs(cpu - cuda) <= limit) continue;
    ADD_FAILURE() << "element " << i << " of " << tensor.count << ": CUDA " << cuda
                  << ", CPU " << cpu << ", allowed difference " << limit;
    ++shown;
  }
}

void TwoSides::ExpectEqualBits(const Tensor& tensor) const {
  int shown = 0;
  const std::byte* const cpu = tensor.CpuResult();
  for (int64_t i = 0; i < tensor.count && shown < 5; ++i) {
    const int64_t at = i * tensor.element_bytes;
    if (std::memcmp(cpu + at, tensor.cuda.data() + at, tensor.element_bytes) == 0) {
      continue;
    }
    ADD_FAILURE() << "element " << i << " of " << tensor.count << ": CUDA "
                  << tensor.CudaValue(i) << ", CPU " << tensor.CpuValue(i);
    ++shown;
  }
}

}  // namespace strata
