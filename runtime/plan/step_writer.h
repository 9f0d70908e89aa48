/// Writes one plan of a set as a program over buffers: the order of a step.
///
/// Layer-major: for each group of micro-batches, every segment goes forward with all of
/// them before the next segment does, then the segments go backward the same way. The
/// updates of the step before run just ahead of the forward of their layer, those of
/// this step behind the backward of theirs, as the slices' modes say.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "runtime/plan/decisions.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/program.h"

namespace strata {

class StepWriter {
 public:
  StepWriter(const StepTrace& trace, const Decisions& decisions, const Layout& layout,
             const PlanKey& key);

  Program Write() &&;

 private:
  /// Layers [begin, end) whose inner activations are never kept.
  struct Segment {
    int32_t begin, end;
  };

  // The order of the step.
  void WriteTrain();
  void WriteEvaluate();
  void WriteFlush();
  void LoadInputs();
  void ForwardSegment(size_t index);
  void HeadForward();
  void HeadBackward();
  void BackwardSegment(const Segment& segment);
  void BackwardMicroBatch(const Segment& segment, int32_t m);
  Place BackwardLayer(int32_t layer, int32_t m, Place input, Place saved,
                      Place output_gradient, int32_t border);
  void WriteResults();
  bool NeedsRecompute(const Segment& segment, int32_t layer) const;

  // Updates that need not stand where they arise.
  void DoLater(std::function<void()> write);
  void DoSome(int32_t turns_left);
  void SettleAhead(size_t segment);

  // One computation of a layer; null where an operand does not apply.
  VirtualOp Compute(OpCode code, int32_t layer, int32_t m, Place input);
  void Forward(int32_t layer, int32_t m, Place input, const Place* output, Place saved,
               bool recompute);
  void Backward(int32_t layer, int32_t m, Place input, Place saved,
                Place output_gradient, const Place* input_gradient);
  Place NewSaved(int32_t layer);

  // Activations between segments, and their gradients.
  Place& ActivationHome(Role role, int32_t layer, int32_t m);
  Place OutputPlace(Role role, int32_t layer, int32_t m);
  Place LoadActivation(Role role, int32_t layer, int32_t m);
  void StoreActivation(Role role, int32_t layer, int32_t m, Place source);

  // Weights on the device (weight_writer.cc).
  void AcquireWeights(int32_t layer);
  void SettleWeights(int32_t layer);
  void AcquireShared(int32_t layer);
  void HoldOnly(int32_t begin, int32_t end);

  // Accumulators.
  void StartAccumulators(int32_t layer);
  void EndAccumulators(int32_t layer);
  Place StartAccumulator(Role role, int32_t owner, Place* home);
  Place HomeOfAccumulator(Role role, int32_t owner);
  void SaveAccumulator(Role role, int32_t owner, Place source, Place home);
  Place LoadAccumulator(Role role, int32_t owner, int32_t group, Place home);

  // The optimizer (update_writer.cc).
  struct AdvancePlaces {
    Place weights, state;
    Place pending;   // the last step's gradient
    Place gradient;  // this step's
    Place speculated;
  };
  void UpdatePending(int32_t layer, int32_t slice, Place weights);
  void UpdatePendingOnCpu(int32_t layer, int32_t slice);
  void FinishSlice(int32_t layer, int32_t slice);
  void FinishImmediate(int32_t layer, int32_t slice, Place gradient);
  void FinishLagged(int32_t layer, int32_t slice, Place gradient);
  void FinishOnCpu(int32_t layer, int32_t slice, Place gradient);
  void SettleOnCpu(int32_t layer, int32_t slice, Place gradient);
  void AdvanceOnCpu(int32_t layer, int32_t slice, Place gradient);
  Place NewSpeculatedOnCpu(int32_t layer, int32_t slice);
  void Reduce(int32_t layer, int32_t slice, Place gradient);
  void Update(int32_t layer, int32_t slice, int32_t epoch, Place weights, Place state,
              Place gradient);
  void Speculate(int32_t layer, int32_t slice, Place weights, Place state,
                 Place gradient, Place speculated);

  void Advance(int32_t layer, int32_t slice, const AdvancePlaces& places,
               bool keeps_gradient);
  void ChangeFlags(VirtualOp& op) const;

  // Homes of a slice's shards.
  Place Fetch(const Piece& piece, Place home, TierKind tier, Pool pool);
  void PutBack(const Piece& piece, Place source, Place home);
  Piece PieceOf(Role role, int32_t layer, int32_t slice, int32_t epoch) const;
  Place WeightHome(int32_t layer, int32_t slice) const;
  bool IsPending(const SliceLayout& slice) const;
  bool ReadsSpeculated(const SliceLayout& slice) const;
  const SliceLayout& Slice(int32_t layer, int32_t slice) const {
    return layout_.layers[layer].slices[static_cast<size_t>(slice)];
  }
  int32_t SliceCount(int32_t layer) const {
    return static_cast<int32_t>(layout_.layers[layer].slices.size());
  }
  bool HasAccumulator(int32_t layer) const {
    return trace_.layers[layer].trainable_elements > 0;
  }
  /// The layer to whose shared accumulator `layer` adds, or -1.
  int32_t SharedOwner(int32_t layer) const;
  int32_t head() const { return trace_.layer_count() - 1; }
  int32_t GroupBegin(int32_t group) const;

  const StepTrace& trace_;
  const Decisions& decisions_;
  const Layout& layout_;
  const PlanKey key_;
  const int32_t groups_;
  const int32_t lowest_;
  std::vector<Segment> segments_;
  Program program_;

  int32_t group_ = 0;           // that is being written
  Place inputs_;                // all micro-batches, on the device
  std::vector<Place> weights_;  // by layer, on the device, where held
  std::vector<bool> weights_held_;
  std::vector<bool> settled_;  // by layer: its pending updates are written or later_
  std::vector<std::vector<bool>> brought_;       // by layer and slice: weights_ has it
  std::deque<std::function<void()>> later_;      // items that are still to be written
  std::vector<Place> accumulators_;              // by layer
  std::vector<Place> shared_accumulators_;       // by owner
  std::vector<Place> accumulator_homes_;         // by layer; buffer -1 = none yet
  std::vector<Place> shared_accumulator_homes_;  // by owner; buffer -1 = none yet
  std::vector<std::vector<Place>> activation_homes_;  // by layer, micro-batch
  std::vector<std::vector<Place>> gradient_homes_;    // by layer, micro-batch
  // By micro-batch: what still lies on the device for the next segment, and where.
  std::vector<Value> passed_values_;
  std::vector<Place> passed_;
};

}  // namespace strata
