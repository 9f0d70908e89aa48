#include "model/step_runner.h"

#include <algorithm>

#include "runtime/base/status.h"

namespace strata {

AdamWScalars StepRunner::ScalarsFor(const DecayRange& range, AdamWScalars scalars) {
  if (!range.decays) {
    scalars.decay_factor = 1;
    scalars.l2 = 0;
  }
  return scalars;
}

StepRunner::StepRunner(const ModelShape& model, const std::vector<LayerLayout>& layouts,
                       const StepTrace& trace, Kernels& device_kernels,
                       Kernels& cpu_kernels)
    : model_(model),
      trace_(trace),
      device_kernels_(device_kernels),
      cpu_kernels_(cpu_kernels),
      constant_offsets_(ConstantOffsets(model)),
      matmul_bytes_(AlignUp(device_kernels.matmul_workspace_bytes(), 256)) {
  for (const LayerLayout& layout : layouts) {
    std::vector<DecayRange> ranges;
    for (const TensorPlacement& tensor : layout.tensors) {
      if (!tensor.spec.trainable) continue;
      // Padding up to the next tensor is zero whatever is done to it.
      if (!ranges.empty() && ranges.back().decays == tensor.spec.decays) continue;
      if (!ranges.empty()) ranges.back().end = tensor.first_element;
      ranges.push_back(
          {tensor.first_element, layout.trainable_elements, tensor.spec.decays});
    }
    decay_.push_back(std::move(ranges));
  }
}

absl::Status StepRunner::Run(const OpCall& call, Stream& stream) {
  switch (call.op.code) {
    case OpCode::kForward:
    case OpCode::kBackward:
      return RunLayer(call, stream);
    case OpCode::kZero:
      return RunZero(call, stream);
    case OpCode::kReduce:
      return RunReduce(call, stream);
    case OpCode::kUpdate:
    case OpCode::kSpeculate:
    case OpCode::kAdvance:
      return RunOptimizer(call, stream);
    default:
      return absl::InternalError("a transfer is not the runner's to compute");
  }
}

absl::Status StepRunner::RunLayer(const OpCall& call, Stream& stream) {
  const RunScalars& scalars = scalars_[call.run % scalars_.size()];
  const size_t layer = static_cast<size_t>(call.op.layer);
  const MicroBatchShape shape = scalars.shape.value_or(model_.micro_batch);
  const int64_t tokens = shape.tokens();
  const int32_t* inputs = call.At<const int32_t>(Operand::kInputs);
  std::byte* const workspace = call.At(Operand::kWorkspace);
  const std::byte* constants = call.At(Operand::kConstants);
  float* logits = scalars.logits;
  if (logits != nullptr) logits += call.op.micro_batch * scalars.logits_stride;
  const LayerContext context{
      .stream = stream,
      .kernels = device_kernels_,
      .matmul_workspace = workspace,
      .shape = shape,
      .planned_shape = model_.micro_batch,
      .inputs = inputs == nullptr
                    ? MicroBatchInputs{}
                    : MicroBatchInputs{inputs, inputs + tokens, inputs + 2 * tokens,
                                       inputs + 3 * tokens},
      .constants =
          constants == nullptr ? nullptr : constants + constant_offsets_[layer],
      .weights = call.At(Operand::kWeights),
      .shared_weights = call.At(Operand::kSharedWeights),
      .input = call.At(Operand::kInput),
      .output = call.At(Operand::kOutput),
      .saved = call.At(Operand::kSaved),
      .workspace = workspace == nullptr ? nullptr : workspace + matmul_bytes_,
      .output_gradient = call.At(Operand::kOutputGradient),
      .input_gradient = call.At(Operand::kInputGradient),
      .accumulator = call.At<float>(Operand::kAccumulator),
      .shared_accumulator = call.At<float>(Operand::kSharedAccumulator),
      .loss_sum = call.At<double>(Operand::kLoss),
      .loss_scale = scalars.loss_scale,
      .logits = logits,
      .logit_rows = scalars.logit_rows,
      .logit_row_count = scalars.logit_row_count,
      .recompute = call.op.recompute,
  };
  const Layer& model_layer = *model_.layers[layer];
  return call.op.code == OpCode::kForward ? model_layer.Forward(context)
                                          : model_layer.Backward(context);
}

absl::Status StepRunner::RunZero(const OpCall& call, Stream& stream) {
  std::byte* target = call.At(Operand::kAccumulator);
  if (target == nullptr) target = call.At(Operand::kSharedAccumulator);
  const int64_t elements = trace_.layers[call.op.layer].trainable_elements;
  return device_kernels_.Run(stream, Fill{target, elements * kAccumulatorBytes});
}

absl::Status StepRunner::RunReduce(const OpCall& call, Stream& stream) {
  const SliceLayout& slice = layout_->layers[call.op.layer].slices[call.op.slice];
  return device_kernels_.Run(stream,
                             ReduceGradient{
                                 .gradient = call.At(Operand::kGradient),
                                 .tile_sums = call.At<float>(Operand::kTileSums),
                                 .a = call.At<const float>(Operand::kAccumulator),
                                 .b = call.At<const float>(Operand::kSharedAccumulator),
                                 .count = slice.elements(),
                                 .dtype = model_.dtype,
                             });
}

absl::Status StepRunner::RunOptimizer(const OpCall& call, Stream& stream) {
  const RunScalars& run = scalars_[call.run % scalars_.size()];
  const SliceLayout& slice = layout_->layers[call.op.layer].slices[call.op.slice];
  Kernels& kernels = call.op.lane == Lane::kCpu ? cpu_kernels_ : device_kernels_;
  const bool advances = call.op.code == OpCode::kAdvance;
  // An update applies the gradient that its slice's mode has left waiting: this step's
  // own if it is immediate, else the last step's. Speculation is always about this
  // step.
  const bool current =
      call.op.code == OpCode::kSpeculate || slice.mode == UpdateMode::kImmediate;
  const int64_t unit = SizeOf(model_.dtype);
  const bool has_remainder = model_.dtype == DType::kBF16;
  std::byte* const state = call.At(Operand::kState);
  const int64_t count = slice.elements();
  std::byte* const moments =
      state + (has_remainder ? count * int64_t{sizeof(int16_t)} : 0);
  // An operation that only advances on the device leaves the old gradient as it is.
  const bool keeps = advances && call.op.lane == Lane::kCpu;
  for (const DecayRange& range : decay_[call.op.layer]) {
    const int64_t begin = std::max(range.begin, slice.begin) - slice.begin;
    const int64_t end = std::min(range.end, slice.end) - slice.begin;
    if (begin >= end) continue;
    const auto at = [&](Operand operand) {
      std::byte* const address = call.At(operand);
      return address == nullptr ? nullptr : address + begin * unit;
    };
    STRATA_RETURN_IF_ERROR(kernels.Run(
        stream,
        AdamW{
            .weight = at(Operand::kWeights),
            .remainder =
                has_remainder ? reinterpret_cast<int16_t*>(state) + begin : nullptr,
            .moment1 = reinterpret_cast<float*>(moments) + begin,
            .moment2 = reinterpret_cast<float*>(moments) + count + begin,
            .gradient = at(Operand::kGradient),
            .speculated = at(Operand::kSpeculated),
            .count = end - begin,
            .scalars = ScalarsFor(range, current ? run.current : run.pending),
            .dtype = model_.dtype,
            .next_gradient = at(Operand::kNextGradient),
            .kept_gradient = keeps ? at(Operand::kGradient) : nullptr,
            .next_scalars = ScalarsFor(range, run.current),
            // A guess may overflow without harm; the exact update will say so.
            .first_bad = call.At<int64_t>(Operand::kFlags),
            .first_element = slice.begin + begin,
        }));
  }
  return absl::OkStatus();
}

}  // namespace strata
