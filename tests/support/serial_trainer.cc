#include "tests/support/serial_trainer.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/base/status.h"
#include "tests/support/inline_stream.h"

namespace strata {
namespace {

float RoundToBf16Master(float value) {  // half away from zero in magnitude, as stored
  return std::bit_cast<float>((std::bit_cast<uint32_t>(value) + 0x8000u) & 0xFFFF0000u);
}

std::vector<std::byte> Bytes(int64_t size_bytes) {
  return std::vector<std::byte>(static_cast<size_t>(size_bytes));
}

}  // namespace

SerialTrainer::SerialTrainer(const ModelShape& model,
                             const OptimizerSettings& optimizer, int threads)
    : model_(model), optimizer_(optimizer), stream_(std::make_unique<InlineStream>()) {
  kernels_ = *CreateKernels(DeviceKind::kCpu, {.threads = threads});
  int64_t workspace = 0;
  for (const auto& layer : model.layers) {
    LayerState state{.layout = MakeLayout(*layer)};
    const size_t total = static_cast<size_t>(state.layout.total_elements);
    const size_t trainable = static_cast<size_t>(state.layout.trainable_elements);
    state.master.resize(total);
    state.weights = Bytes(state.layout.total_elements * SizeOf(model.dtype));
    state.moment1.resize(trainable);
    state.moment2.resize(trainable);
    state.accumulator.resize(trainable);
    state.shared_accumulator.resize(trainable);
    state.gradient = Bytes(state.layout.trainable_elements * SizeOf(model.dtype));
    state.tile_sums.resize(trainable / kTileElements);
    layers_.push_back(std::move(state));
    const LayerFootprint bytes = layer->Footprint(model.micro_batch);
    outputs_.push_back(Bytes(bytes.output_bytes));
    gradients_.push_back(Bytes(bytes.output_bytes));
    saved_.push_back(Bytes(bytes.saved_bytes));
    workspace = std::max(
        {workspace, bytes.forward_workspace_bytes, bytes.backward_workspace_bytes});
    constants_.push_back(Bytes(layer->ConstantBytes(model.micro_batch)));
    if (!constants_.back().empty()) {
      layer->WriteConstants(model.micro_batch, constants_.back().data());
    }
  }
  workspace_ = Bytes(workspace);
  matmul_workspace_ = Bytes(kernels_->matmul_workspace_bytes());
}

void SerialTrainer::RefreshWeights(LayerState& state) {
  for (size_t i = 0; i < state.master.size(); ++i) {
    if (model_.dtype == DType::kF32) {
      std::memcpy(state.weights.data() + 4 * i, &state.master[i], 4);
    } else {
      const uint32_t bits = std::bit_cast<uint32_t>(RoundToBf16Master(state.master[i]));
      const uint16_t high = static_cast<uint16_t>(bits >> 16);
      std::memcpy(state.weights.data() + 2 * i, &high, 2);
    }
  }
}

absl::Status SerialTrainer::LoadWeights(const TensorReader& reader) {
  for (LayerState& state : layers_) {
    for (const TensorPlacement& tensor : state.layout.tensors) {
      STRATA_RETURN_IF_ERROR(
          reader(tensor.spec, 0,
                 std::span(state.master)
                     .subspan(static_cast<size_t>(tensor.first_element),
                              static_cast<size_t>(tensor.count))));
    }
    RefreshWeights(state);
  }
  return absl::OkStatus();
}

LayerContext SerialTrainer::Context(size_t l, const MicroBatch& batch) {
  const Layer& layer = *model_.layers[l];
  const size_t constants =
      layer.constants_layer() >= 0 ? static_cast<size_t>(layer.constants_layer()) : l;
  const int shared = layer.shared_layer();
  LayerContext context{.stream = *stream_,
                       .kernels = *kernels_,
                       .matmul_workspace = matmul_workspace_.data(),
                       .shape = model_.micro_batch,
                       .planned_shape = model_.micro_batch};
  context.inputs = {batch.tokens.data(), batch.targets.data(), batch.positions.data(),
                    batch.documents.data()};
  context.constants = constants_[constants].data();
  context.weights = layers_[l].weights.data();
  if (shared >= 0)
    context.shared_weights = layers_[static_cast<size_t>(shared)].weights.data();
  if (l > 0) context.input = outputs_[l - 1].data();
  if (l + 1 < layers_.size()) context.output = outputs_[l].data();
  context.saved = saved_[l].data();
  context.workspace = workspace_.data();
  return context;
}

absl::Status SerialTrainer::MicroBatchPass(const MicroBatch& batch, float loss_scale,
                                           bool train, double* loss) {
  const size_t head = layers_.size() - 1;
  size_t lowest = 0;
  while (layers_[lowest].layout.trainable_elements == 0) ++lowest;
  for (size_t l = 0; l < head; ++l) {
    STRATA_RETURN_IF_ERROR(model_.layers[l]->Forward(Context(l, batch)));
  }
  if (!train) {
    LayerContext context = Context(head, batch);
    context.loss_sum = loss;
    return model_.layers[head]->Forward(context);
  }
  for (size_t l = head + 1; l-- > lowest;) {
    LayerContext context = Context(l, batch);
    context.output = nullptr;
    context.loss_scale = loss_scale;
    if (l == head) context.loss_sum = loss;
    if (l < head) context.output_gradient = gradients_[l].data();
    if (l > lowest) context.input_gradient = gradients_[l - 1].data();
    if (!layers_[l].accumulator.empty())
      context.accumulator = layers_[l].accumulator.data();
    if (const int shared = model_.layers[l]->shared_layer(); shared >= 0) {
      auto& accumulator = layers_[static_cast<size_t>(shared)].shared_accumulator;
      if (!accumulator.empty()) context.shared_accumulator = accumulator.data();
    }
    STRATA_RETURN_IF_ERROR(model_.layers[l]->Backward(context));
  }
  return absl::OkStatus();
}

absl::StatusOr<SerialStep> SerialTrainer::Step(std::span<const MicroBatch> batches,
                                               double learning_rate) {
  int64_t trained = 0;
  for (const MicroBatch& batch : batches) {
    for (const int32_t target : batch.targets) trained += target != kIgnoredLabel;
  }
  SerialStep result;
  if (trained == 0) {
    result.skipped = true;
    result.loss = result.grad_norm = std::numeric_limits<double>::quiet_NaN();
    return result;
  }
  for (LayerState& state : layers_) {
    std::fill(state.accumulator.begin(), state.accumulator.end(), 0.0f);
    std::fill(state.shared_accumulator.begin(), state.shared_accumulator.end(), 0.0f);
  }
  double sum = 0;
  for (const MicroBatch& batch : batches) {
    double loss = 0;
    STRATA_RETURN_IF_ERROR(MicroBatchPass(
        batch, static_cast<float>(1.0 / static_cast<double>(trained)), true, &loss));
    sum += loss;
  }
  result.loss = sum / static_cast<double>(trained);

  std::vector<bool> shared(layers_.size());
  for (const auto& layer : model_.layers) {
    if (layer->shared_layer() >= 0)
      shared[static_cast<size_t>(layer->shared_layer())] = true;
  }
  double squares = 0;
  for (size_t l = 0; l < layers_.size(); ++l) {
    LayerState& state = layers_[l];
    if (state.accumulator.empty()) continue;
    STRATA_RETURN_IF_ERROR(kernels_->Run(
        *stream_, ReduceGradient{state.gradient.data(), state.tile_sums.data(),
                                 state.accumulator.data(),
                                 shared[l] ? state.shared_accumulator.data() : nullptr,
                                 state.layout.trainable_elements, model_.dtype}));
    for (const float tile : state.tile_sums) squares += tile;
  }
  result.grad_norm = std::sqrt(squares);
  if (!std::isfinite(result.grad_norm)) {
    result.skipped = true;
    return result;
  }
  double factor = 1;
  if (optimizer_.max_grad_norm > 0) {
    factor = std::min(1.0, optimizer_.max_grad_norm / (result.grad_norm + 1e-6));
  }
  result.clipped = static_cast<float>(factor) != 1.0f;
  ++step_;
  for (LayerState& state : layers_) Update(state, learning_rate, factor);
  return result;
}

// The formula of docs/numerics.md, element by element.
void SerialTrainer::Update(LayerState& state, double learning_rate,
                           double clip_factor) {
  const double t = static_cast<double>(step_);
  const float beta1 = static_cast<float>(optimizer_.beta1);
  const float beta2 = static_cast<float>(optimizer_.beta2);
  const float rest1 = static_cast<float>(1 - optimizer_.beta1);
  const float rest2 = static_cast<float>(1 - optimizer_.beta2);
  const float step_size =
      static_cast<float>(learning_rate / (1 - std::pow(optimizer_.beta1, t)));
  const float root = static_cast<float>(std::sqrt(1 - std::pow(optimizer_.beta2, t)));
  const float epsilon = static_cast<float>(optimizer_.epsilon);
  for (const TensorPlacement& tensor : state.layout.tensors) {
    if (!tensor.spec.trainable) continue;
    const double decay = tensor.spec.decays ? optimizer_.weight_decay : 0;
    const float l2 = optimizer_.decoupled_decay ? 0.0f : static_cast<float>(decay);
    const float keep = optimizer_.decoupled_decay
                           ? static_cast<float>(1 - learning_rate * decay)
                           : 1.0f;
    for (int64_t e = tensor.first_element; e < tensor.first_element + tensor.count;
         ++e) {
      const size_t i = static_cast<size_t>(e);
      float gradient = 0;
      if (model_.dtype == DType::kF32) {
        std::memcpy(&gradient, state.gradient.data() + 4 * i, 4);
      } else {
        uint16_t high = 0;
        std::memcpy(&high, state.gradient.data() + 2 * i, 2);
        gradient = std::bit_cast<float>(static_cast<uint32_t>(high) << 16);
      }
      float w = state.master[i];
      float g = static_cast<float>(clip_factor) * gradient;
      if (l2 != 0) g = g + l2 * w;
      const float m = beta1 * state.moment1[i] + rest1 * g;
      const float v = beta2 * state.moment2[i] + rest2 * (g * g);
      w = w * keep;
      w = w - step_size * m / (std::sqrt(v) / root + epsilon);
      state.master[i] = w;
      state.moment1[i] = m;
      state.moment2[i] = v;
    }
  }
  RefreshWeights(state);
}

absl::StatusOr<double> SerialTrainer::Evaluate(std::span<const MicroBatch> batches) {
  double sum = 0;
  for (const MicroBatch& batch : batches) {
    double loss = 0;
    STRATA_RETURN_IF_ERROR(MicroBatchPass(batch, 0, false, &loss));
    sum += loss;
  }
  return sum;
}

std::map<std::string, std::vector<float>> SerialTrainer::Collect(
    const std::vector<float> LayerState::*values, bool trainable_only) const {
  std::map<std::string, std::vector<float>> tensors;
  for (const LayerState& state : layers_) {
    for (const TensorPlacement& tensor : state.layout.tensors) {
      if (trainable_only && !tensor.spec.trainable) continue;
      const auto first = (state.*values).begin() + tensor.first_element;
      tensors[tensor.spec.name].assign(first, first + tensor.count);
    }
  }
  return tensors;
}

std::map<std::string, std::vector<float>> SerialTrainer::Weights() const {
  auto weights = Collect(&LayerState::master, false);
  if (model_.dtype == DType::kBF16) {
    for (auto& [name, values] : weights) {
      for (float& value : values) value = RoundToBf16Master(value);
    }
  }
  return weights;
}

std::map<std::string, std::vector<float>> SerialTrainer::State(StateKind kind) const {
  return Collect(kind == StateKind::kMaster    ? &LayerState::master
                 : kind == StateKind::kMoment1 ? &LayerState::moment1
                                               : &LayerState::moment2,
                 true);
}

}  // namespace strata
