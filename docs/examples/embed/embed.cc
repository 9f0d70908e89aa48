// Layers of one's own, trained through device, host and NVMe tiers: a model that predicts
// the next byte of a text. Layers see pointers and kernels; where bytes rest is the plan's.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "model/model_files.h"
#include "model/trainer.h"
#include "runtime/base/status.h"
#include "runtime/device/cpu_device.h"
#include "tiers/nvme_store.h"

namespace {
using namespace strata;
constexpr int64_t kBytes = 256, kWidth = 256, kLength = 64;

// c [m, n] = a * b, or += ; fp32.
absl::Status Product(const LayerContext& context, Matmul op) {
  op.dtype = op.c_dtype = DType::kF32;
  op.workspace = context.matmul_workspace;
  return context.kernels.Run(context.stream, op);
}

struct Embed : Layer {
  std::string name() const override { return "embed"; }
  std::vector<TensorSpec> tensors() const override { return {{"embed.weight", {kBytes, kWidth}}}; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    return {.output_bytes = shape.tokens() * kWidth * 4};
  }
  absl::Status Forward(const LayerContext& c) const override {
    return c.kernels.Run(c.stream, EmbeddingForward{c.output, c.weights, c.inputs.tokens,
        c.shape.tokens(), kWidth, kBytes, DType::kF32});
  }
  absl::Status Backward(const LayerContext& c) const override {
    return c.kernels.Run(c.stream, EmbeddingBackward{c.accumulator, c.output_gradient,
        c.inputs.tokens, c.shape.tokens(), kWidth, kBytes, DType::kF32});
  }
};

// output = input + silu(gate) * up, where gate and up are two products of the input.
struct GatedBlock : Layer {
  explicit GatedBlock(int index) : name_("block." + std::to_string(index)) {}
  std::string name() const override { return name_; }
  std::vector<TensorSpec> tensors() const override {
    return {{name_ + ".weight", {2 * kWidth, kWidth}}};
  }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    const int64_t row = kWidth * 4, rows = shape.tokens();
    return {.output_bytes = rows * row, .saved_bytes = rows * 2 * row, .forward_workspace_bytes =
        rows * row, .backward_workspace_bytes = rows * 3 * row};
  }
  absl::Status Forward(const LayerContext& c) const override {
    const int64_t rows = c.shape.tokens();
    float* const gate = reinterpret_cast<float*>(c.saved);
    STRATA_RETURN_IF_ERROR(Product(c, {.c = gate, .a = c.input, .b = c.weights, .m = rows, .n = 2 *
        kWidth, .k = kWidth, .transpose_b = true}));
    if (c.output == nullptr) return absl::OkStatus();  // only `saved` was wanted
    STRATA_RETURN_IF_ERROR(c.kernels.Run(c.stream, SwiGluForward{c.workspace, gate, gate + kWidth,
        rows, kWidth, 2 * kWidth, DType::kF32}));
    return c.kernels.Run(c.stream, Add{c.output, c.input, c.workspace, rows * kWidth, DType::kF32});
  }
  absl::Status Backward(const LayerContext& c) const override {
    const int64_t rows = c.shape.tokens();
    const float* const gate = reinterpret_cast<const float*>(c.saved);
    float* const both = reinterpret_cast<float*>(c.workspace);  // gradients of gate and up
    float* const through = both + rows * 2 * kWidth;
    STRATA_RETURN_IF_ERROR(c.kernels.Run(c.stream, SwiGluBackward{both, both + kWidth,
        c.output_gradient, gate, gate + kWidth, rows, kWidth, 2 * kWidth, DType::kF32}));
    STRATA_RETURN_IF_ERROR(Product(c, {.c = c.accumulator, .a = both, .b = c.input, .m = 2 * kWidth,
        .n = kWidth, .k = rows, .transpose_a = true, .accumulate = true}));
    STRATA_RETURN_IF_ERROR(Product(c, {.c = through, .a = both, .b = c.weights, .m = rows, .n =
        kWidth, .k = 2 * kWidth}));
    return c.kernels.Run(c.stream, Add{c.input_gradient, c.output_gradient, through, rows * kWidth,
        DType::kF32});
  }
  std::string name_;
};

struct Head : Layer {
  std::string name() const override { return "head"; }
  std::vector<TensorSpec> tensors() const override { return {{"head.weight", {kBytes, kWidth}}}; }
  LayerFootprint Footprint(const MicroBatchShape& shape) const override {
    const int64_t bytes = shape.tokens() * (2 * kBytes + 1) * 4;
    return {.forward_workspace_bytes = bytes, .backward_workspace_bytes = bytes};
  }
  absl::Status Forward(const LayerContext& c) const override { return Loss(c, nullptr); }
  absl::Status Backward(const LayerContext& c) const override {
    const int64_t rows = c.shape.tokens();
    float* const gradient = reinterpret_cast<float*>(c.workspace) + rows * kBytes;
    STRATA_RETURN_IF_ERROR(Loss(c, gradient));
    STRATA_RETURN_IF_ERROR(Product(c, {.c = c.accumulator, .a = gradient, .b = c.input, .m = kBytes,
        .n = kWidth, .k = rows, .transpose_a = true, .accumulate = true}));
    return Product(c, {.c = c.input_gradient, .a = gradient, .b = c.weights, .m = rows, .n = kWidth,
        .k = kBytes});
  }
  static absl::Status Loss(const LayerContext& c, float* gradient) {
    const int64_t rows = c.shape.tokens();
    float* const logits = reinterpret_cast<float*>(c.workspace);
    float* const losses = logits + 2 * rows * kBytes;
    STRATA_RETURN_IF_ERROR(Product(c, {.c = logits, .a = c.input, .b = c.weights, .m = rows, .n =
        kBytes, .k = kWidth, .transpose_b = true}));
    STRATA_RETURN_IF_ERROR(c.kernels.Run(c.stream, CrossEntropy{losses, gradient, logits,
        c.inputs.targets, rows, kBytes, c.loss_scale, DType::kF32}));
    return c.kernels.Run(c.stream, SumInOrder{c.loss_sum, losses, rows});
  }
};

absl::Status Train(const std::string& text, const std::string& nvme) {
  ModelShape model{.micro_batch = {1, kLength}, .micro_batches = 2};
  model.layers.push_back(std::make_unique<Embed>());
  for (int i = 0; i < 4; ++i) model.layers.push_back(std::make_unique<GatedBlock>(i));
  model.layers.push_back(std::make_unique<Head>());

  TrainerOptions options{.optimizer = {.max_grad_norm = 1.0}};
  options.budgets = {.device_bytes = 12 << 20, .host_bytes = 3 << 20, .nvme_bytes = 64 << 20};
  const auto device = CreateCpuDevice({.device_bytes = 12 << 20, .pinned_host_bytes = 3 << 20});
  options.device = options.host_device = device.get();
  options.make_store = [&](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
    return NvmeStore::Create({.directories = {{nvme}}, .capacity_bytes = needs.capacity_bytes,
        .extent_count_max = needs.extent_count, .requests_in_flight_max =
        needs.requests_in_flight});
  };
  STRATA_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(std::move(model), options));
  STRATA_RETURN_IF_ERROR(trainer->LoadWeights(RandomWeights(1)));
  const TierBytes rests = trainer->plan().set.arena_bytes;
  std::printf("device %ld, host %ld, nvme %ld bytes\n", rests.device, rests.host, rests.nvme);

  std::vector<int32_t> bytes(text.begin(), text.end()), zeros(kLength, 0);
  for (int32_t& byte : bytes) byte &= 255;
  for (int64_t step = 0; step < 100; ++step) {
    std::vector<MicroBatch> batches;
    for (int64_t m = 0; m < 2; ++m) {
      const int32_t* at = &bytes[(2 * step + m) * 97 % (bytes.size() - kLength - 1)];
      batches.push_back({{at, kLength}, {at + 1, kLength}, zeros, zeros});
    }
    STRATA_ASSIGN_OR_RETURN(const StepResult result, trainer->Step(batches, 3e-3));
    if (step % 33 == 0) std::printf("step %ld  loss %.3f\n", step, result.loss);
  }
  return trainer->Settle();
}
}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: embed TEXT_FILE NVME_DIRECTORY\n"), 2;
  std::ifstream file(argv[1]);
  const absl::Status status = Train({std::istreambuf_iterator<char>(file), {}}, argv[2]);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
