#include <absl/strings/str_cat.h>

#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/verifier_error.h"
#include "runtime/plan/verifier_operands.h"

namespace strata::verifier {
namespace {

/// How often each piece of work is done.
struct Counts {
  std::vector<int32_t> forward, backward;  // layer * micro_batches + micro_batch
  std::vector<int32_t> reduce, update, speculate;  // by slice, in layer order
};

class WorkCounter {
 public:
  WorkCounter(const PlanSet& set, const Plan& plan) : set_(set), plan_(plan) {
    size_t slices = 0;
    for (const LayerPlacement& layer : set.layout.layers) {
      first_slice_.push_back(slices);
      slices += layer.slices.size();
    }
    const size_t computed =
        set.trace.layers.size() * static_cast<size_t>(plan.key.micro_batches);
    counts_ = {std::vector<int32_t>(computed), std::vector<int32_t>(computed),
               std::vector<int32_t>(slices), std::vector<int32_t>(slices),
               std::vector<int32_t>(slices)};
    for (const Op& op : plan.ops) Count(op);
  }

  absl::Status Check() const {
    for (int32_t layer = 0; layer < set_.trace.layer_count(); ++layer) {
      STRATA_RETURN_IF_ERROR(CheckComputed(layer));
      const auto& slices = set_.layout.layers[layer].slices;
      for (size_t s = 0; s < slices.size(); ++s) {
        STRATA_RETURN_IF_ERROR(CheckSlice(layer, s, slices[s]));
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t At(int32_t layer, int32_t micro_batch) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(plan_.key.micro_batches) +
           static_cast<size_t>(micro_batch);
  }
  size_t Slice(const Op& op) const {
    return first_slice_[static_cast<size_t>(op.layer)] + static_cast<size_t>(op.slice);
  }

  void Count(const Op& op) {
    switch (op.code) {
      case OpCode::kForward:
        if (!op.recompute) ++counts_.forward[At(op.layer, op.micro_batch)];
        break;
      case OpCode::kBackward:
        ++counts_.backward[At(op.layer, op.micro_batch)];
        break;
      case OpCode::kReduce:
        ++counts_.reduce[Slice(op)];
        break;
      case OpCode::kUpdate:
        ++counts_.update[Slice(op)];
        break;
      case OpCode::kSpeculate:
        ++counts_.speculate[Slice(op)];
        break;
      case OpCode::kAdvance:
        ++counts_.update[Slice(op)];
        ++counts_.speculate[Slice(op)];
        break;
      default:
        break;
    }
  }

  absl::Status CheckComputed(int32_t layer) const {
    if (plan_.key.kind == PlanKind::kFlush) return absl::OkStatus();
    const bool train = plan_.key.kind == PlanKind::kTrain;
    const bool last = layer == set_.trace.layer_count() - 1;
    const int32_t forward = train && last ? 0 : 1;
    const int32_t backward = train && layer >= set_.trace.LowestTrainable() ? 1 : 0;
    for (int32_t m = 0; m < plan_.key.micro_batches; ++m) {
      const auto check = [&](const char* what, int32_t count, int32_t wanted) {
        if (count == wanted) return absl::OkStatus();
        return PlanError(plan_, what, " of '", set_.trace.layers[layer].name,
                         "', micro-batch ", m, ", is computed ", count,
                         " times instead of ", wanted);
      };
      STRATA_RETURN_IF_ERROR(check("forward", counts_.forward[At(layer, m)], forward));
      STRATA_RETURN_IF_ERROR(
          check("backward", counts_.backward[At(layer, m)], backward));
    }
    return absl::OkStatus();
  }

  absl::Status CheckSlice(int32_t layer, size_t s, const SliceLayout& slice) const {
    const PlanKey& key = plan_.key;
    const bool train = key.kind == PlanKind::kTrain;
    const bool immediate = slice.mode == UpdateMode::kImmediate;
    const size_t i = first_slice_[static_cast<size_t>(layer)] + s;
    const auto check = [&](const char* what, int32_t count, bool wanted) {
      if (count == (wanted ? 1 : 0)) return absl::OkStatus();
      return PlanError(plan_, "slice ", s, " of '", set_.trace.layers[layer].name,
                       "' is ", what, " ", count, " times instead of ", wanted ? 1 : 0);
    };
    STRATA_RETURN_IF_ERROR(check("reduced", counts_.reduce[i], train));
    STRATA_RETURN_IF_ERROR(check("updated", counts_.update[i],
                                 StartsPending(key, slice) || (train && immediate)));
    return check("speculated", counts_.speculate[i],
                 train && key.speculate && slice.mode == UpdateMode::kLagged);
  }

  const PlanSet& set_;
  const Plan& plan_;
  std::vector<size_t> first_slice_;
  Counts counts_;
};

}  // namespace

absl::Status CheckWork(const PlanSet& set, const Plan& plan) {
  return WorkCounter(set, plan).Check();
}

}  // namespace strata::verifier
