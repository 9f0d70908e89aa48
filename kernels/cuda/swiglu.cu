#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/kernel_entries.h"
#include "kernels/cuda/validate.h"
#include "runtime/base/status.h"

namespace strata::cuda {
namespace {

/// Where a thread's pack lies in a dense [rows, width] and in a strided one.
struct Place {
  int64_t dense;
  int64_t strided;
};

template <int kElements>
__device__ Place PlaceOf(int64_t width, int64_t row_stride) {
  const int64_t dense = FirstElement<kElements>();
  const int64_t row = dense / width;
  return {dense, row * row_stride + (dense - row * width)};
}

__device__ float Sigmoid(float value) { return 1.0f / (1.0f + expf(-value)); }

template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads) ForwardKernel(SwiGluForward op) {
  const Place at = PlaceOf<kElements>(op.width, op.row_stride);
  if (at.dense >= op.rows * op.width) return;
  const auto gate = LoadPack<kElements>(static_cast<const T*>(op.gate) + at.strided);
  const auto up = LoadPack<kElements>(static_cast<const T*>(op.up) + at.strided);
  Pack<T, kElements> output;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float g = ToFloat(gate.values[i]);
    output.values[i] = FromFloat<T>(g * Sigmoid(g) * ToFloat(up.values[i]));
  }
  StorePack<kElements>(static_cast<T*>(op.output) + at.dense, output);
}

template <typename T, int kElements>
__global__ void __launch_bounds__(kElementwiseThreads)
    BackwardKernel(SwiGluBackward op) {
  const Place at = PlaceOf<kElements>(op.width, op.row_stride);
  if (at.dense >= op.rows * op.width) return;
  const auto gradient =
      LoadPack<kElements>(static_cast<const T*>(op.output_gradient) + at.dense);
  const auto gate = LoadPack<kElements>(static_cast<const T*>(op.gate) + at.strided);
  const auto up = LoadPack<kElements>(static_cast<const T*>(op.up) + at.strided);
  Pack<T, kElements> gate_gradient, up_gradient;
#pragma unroll
  for (int i = 0; i < kElements; ++i) {
    const float d = ToFloat(gradient.values[i]);
    const float g = ToFloat(gate.values[i]);
    const float sigmoid = Sigmoid(g);
    up_gradient.values[i] = FromFloat<T>(d * (g * sigmoid));
    const float slope = sigmoid * (1.0f + g * (1.0f - sigmoid));
    gate_gradient.values[i] = FromFloat<T>(d * ToFloat(up.values[i]) * slope);
  }
  StorePack<kElements>(static_cast<T*>(op.gate_gradient) + at.strided, gate_gradient);
  StorePack<kElements>(static_cast<T*>(op.up_gradient) + at.strided, up_gradient);
}

}  // namespace

absl::Status Launch(cudaStream_t stream, const SwiGluForward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack = CanPack({op.output, op.gate, op.up}, {op.width, op.row_stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    ForwardKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows * op.width, kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("SwiGluForward");
  });
}

absl::Status Launch(cudaStream_t stream, const SwiGluBackward& op) {
  STRATA_RETURN_IF_ERROR(Validate(op));
  const bool can_pack =
      CanPack({op.gate_gradient, op.up_gradient, op.output_gradient, op.gate, op.up},
              {op.width, op.row_stride});
  return ForDTypeAndPack(op.dtype, can_pack, [&](auto element, auto pack) {
    BackwardKernel<decltype(element), pack.kElements>
        <<<BlockCount(op.rows * op.width, kElementwiseThreads * pack.kElements),
           kElementwiseThreads, 0, stream>>>(op);
    return LaunchStatus("SwiGluBackward");
  });
}

}  // namespace strata::cuda
