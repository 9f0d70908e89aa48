#include "tests/support/layer_chain.h"

#include <cmath>

#include "runtime/base/status.h"

namespace strata {
namespace {

TestTensor Bytes(int64_t size_bytes) {
  STRATA_CHECK(size_bytes % 2 == 0);
  return TestTensor(DType::kBF16, size_bytes / 2);
}

std::byte* PointerOrNull(const TestTensor& tensor) {
  return tensor.count() == 0 ? nullptr : tensor.bytes();
}

}  // namespace

LayerChain::LayerChain(std::vector<std::unique_ptr<Layer>> layers,
                       MicroBatchShape shape, DType dtype)
    : layers_(std::move(layers)),
      shape_(shape),
      kernels_(*CreateKernels(DeviceKind::kCpu, {.threads = 2})),
      matmul_workspace_(DType::kF32, kernels_->matmul_workspace_bytes() / 4) {
  for (const auto& layer : layers_) {
    const LayerLayout layout = MakeLayout(*layer);
    const LayerFootprint footprint = layer->Footprint(shape);
    State state{
        .layout = layout,
        .weights = TestTensor::Zeros(dtype, layout.total_elements),
        .constants = Bytes(layer->ConstantBytes(shape)),
        .output = Bytes(footprint.output_bytes),
        .output_gradient = Bytes(footprint.output_bytes),
        .saved = Bytes(footprint.saved_bytes),
        .accumulator = TestTensor(DType::kF32, layout.trainable_elements),
        .shared_accumulator = TestTensor(DType::kF32, layout.trainable_elements)};
    if (state.constants.count() > 0) {
      layer->WriteConstants(shape, state.constants.bytes());
    }
    states_.push_back(std::move(state));
  }
}

size_t LayerChain::LayerOf(const std::string& name) const {
  for (size_t layer = 0; layer < states_.size(); ++layer) {
    for (const TensorPlacement& tensor : states_[layer].layout.tensors) {
      if (tensor.spec.name == name) return layer;
    }
  }
  STRATA_CHECK(false);
  return 0;
}

const TensorPlacement& LayerChain::Find(const std::string& name) const {
  return states_[LayerOf(name)].layout.Find(name);
}

std::vector<TensorPlacement> LayerChain::tensors() const {
  std::vector<TensorPlacement> all;
  for (const State& state : states_) {
    all.insert(all.end(), state.layout.tensors.begin(), state.layout.tensors.end());
  }
  return all;
}

void LayerChain::SetWeight(const std::string& name, std::span<const float> values) {
  STRATA_CHECK(static_cast<int64_t>(values.size()) == Find(name).count);
  for (size_t i = 0; i < values.size(); ++i) {
    SetWeight(name, static_cast<int64_t>(i), values[i]);
  }
}

double LayerChain::Weight(const std::string& name, int64_t i) const {
  return states_[LayerOf(name)].weights[Find(name).first_element + i];
}

void LayerChain::SetWeight(const std::string& name, int64_t i, double value) {
  states_[LayerOf(name)].weights.Set(Find(name).first_element + i, value);
}

LayerContext LayerChain::Context(const Batch& batch, size_t layer,
                                 const TestTensor& workspace) {
  State& state = states_[layer];
  const int shared = layers_[layer]->shared_layer();
  const int constants = layers_[layer]->constants_layer();
  const State& constants_state =
      constants < 0 ? state : states_[static_cast<size_t>(constants)];
  LayerContext context{.stream = stream_,
                       .kernels = *kernels_,
                       .matmul_workspace = matmul_workspace_.bytes(),
                       .shape = shape_,
                       .planned_shape = shape_};
  context.inputs = {batch.tokens.data(), batch.targets.data(), batch.positions.data(),
                    batch.documents.data()};
  context.constants = PointerOrNull(constants_state.constants);
  context.weights = state.weights.bytes();
  if (shared >= 0) {
    context.shared_weights = states_[static_cast<size_t>(shared)].weights.bytes();
  }
  if (layer > 0) context.input = states_[layer - 1].output.bytes();
  context.saved = PointerOrNull(state.saved);
  context.workspace = PointerOrNull(workspace);
  return context;
}

void LayerChain::Forward(const Batch& batch, size_t layer) {
  const TestTensor workspace =
      Bytes(layers_[layer]->Footprint(shape_).forward_workspace_bytes);
  LayerContext context = Context(batch, layer, workspace);
  context.output = PointerOrNull(states_[layer].output);
  if (layer + 1 == layers_.size()) {
    context.loss_sum = &loss_sum_;
    context.logits = logits_.count() > 0 ? logits_.floats() : nullptr;
  }
  const absl::Status status = layers_[layer]->Forward(context);
  EXPECT_TRUE(status.ok()) << status;
}

double LayerChain::Loss(const Batch& batch) {
  for (size_t layer = 0; layer < layers_.size(); ++layer) Forward(batch, layer);
  return loss_sum_;
}

double LayerChain::Train(const Batch& batch, float loss_scale, size_t lowest) {
  for (size_t layer = 0; layer + 1 < layers_.size(); ++layer) Forward(batch, layer);
  for (State& state : states_) {
    std::fill_n(state.accumulator.floats(), state.accumulator.count(), 0.0f);
    std::fill_n(state.shared_accumulator.floats(), state.shared_accumulator.count(),
                0.0f);
  }
  for (size_t layer = layers_.size(); layer-- > lowest;) {
    State& state = states_[layer];
    const TestTensor workspace =
        Bytes(layers_[layer]->Footprint(shape_).backward_workspace_bytes);
    LayerContext context = Context(batch, layer, workspace);
    context.output_gradient = PointerOrNull(state.output_gradient);
    if (layer > lowest) {
      context.input_gradient = states_[layer - 1].output_gradient.bytes();
    }
    if (state.accumulator.count() > 0) context.accumulator = state.accumulator.floats();
    if (const int shared = layers_[layer]->shared_layer(); shared >= 0) {
      const TestTensor& accumulator =
          states_[static_cast<size_t>(shared)].shared_accumulator;
      if (accumulator.count() > 0) context.shared_accumulator = accumulator.floats();
    }
    if (layer + 1 == layers_.size()) context.loss_sum = &loss_sum_;
    context.loss_scale = loss_scale;
    const absl::Status status = layers_[layer]->Backward(context);
    EXPECT_TRUE(status.ok()) << status;
  }
  return loss_sum_;
}

TestTensor LayerChain::Recompute(const Batch& batch, size_t layer) {
  TestTensor saved = Bytes(layers_[layer]->Footprint(shape_).saved_bytes);
  const TestTensor workspace =
      Bytes(layers_[layer]->Footprint(shape_).forward_workspace_bytes);
  LayerContext context = Context(batch, layer, workspace);
  context.saved = saved.bytes();
  context.recompute = true;
  const absl::Status status = layers_[layer]->Forward(context);
  EXPECT_TRUE(status.ok()) << status;
  return saved;
}

std::vector<double> LayerChain::Gradient(const std::string& name) const {
  const State& state = states_[LayerOf(name)];
  const TensorPlacement& tensor = state.layout.Find(name);
  STRATA_CHECK(tensor.spec.trainable);
  std::vector<double> gradient(static_cast<size_t>(tensor.count));
  for (int64_t i = 0; i < tensor.count; ++i) {
    gradient[static_cast<size_t>(i)] =
        state.accumulator.floats()[tensor.first_element + i] +
        state.shared_accumulator.floats()[tensor.first_element + i];
  }
  return gradient;
}

double LayerChain::GradientNorm() const {
  double squares = 0;
  for (const State& state : states_) {
    for (const TensorPlacement& tensor : state.layout.tensors) {
      if (!tensor.spec.trainable) continue;
      for (const double g : Gradient(tensor.spec.name)) squares += g * g;
    }
  }
  return std::sqrt(squares);
}

void LayerChain::WantLogits(int64_t vocab) {
  logits_ = TestTensor(DType::kF32, shape_.tokens() * vocab);
}

}  // namespace strata
