/// What a step would take, from sums alone: no operation is written. The planner ranks
/// thousands of ways to place and order a step with it, and simulates the few best.
///
/// A step has two phases, forward and backward. In each all lanes work at once, as
/// prefetching lets them, and the last to end sets the time.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "runtime/plan/planner.h"
#include "runtime/plan/residency.h"

namespace strata {

/// Bytes of one micro-batch's activations at all segment borders but the last.
int64_t BorderBytes(const StepTrace& trace, int32_t segment_layers);

class StepEstimate {
 public:
  /// `request` outlives this.
  explicit StepEstimate(const PlanRequest& request);

  /// Seconds of a steady, unclipped step in this order, where every tier has so many
  /// bytes for homes (activations that rest on nvme among them). Infinity where the
  /// homes do not fit. More bytes are not slower.
  double Seconds(const StepOrder& order, const TierBytes& home_bytes);

 private:
  /// Work by resource: FLOP, or bytes.
  struct Phase {
    double flops = 0, device = 0, in = 0, out = 0, cpu = 0, read = 0, write = 0;
    double operations = 0;  // in the compute lane
  };
  using Phases = std::array<Phase, 2>;  // forward, backward

  /// Elements that are updated in one way.
  struct Part {
    double elements = 0;
    bool weights_on_device = false, state_on_device = false;
    double gradient_on_device = 0;  // share of them
    bool lagged = false, on_cpu = false;
  };
  struct Homes {
    std::array<Part, 8> parts;
    double weights = 0;  // elements, those that are not trained too, off the device
  };
  /// Shares of what is off the device that rest on nvme.
  struct Drive {
    double weights = 0, state = 0, gradient = 0, speculated = 0;
  };

  bool PlaceOnDevice(const StepOrder& order, double device, Homes* homes) const;
  bool PlaceOnDrive(const StepOrder& order, const TierBytes& given, const Homes& homes,
                    Drive* drive) const;
  void AddUpdate(const Part& part, const Drive& drive, const StepOrder& order,
                 Phases& phases) const;
  void AddWeights(const StepOrder& order, const Homes& homes, const Drive& drive,
                  Phases& phases) const;
  void AddActivations(const StepOrder& order, Phases& phases) const;
  void AddCompute(const StepOrder& order, Phases& phases) const;
  const Phases& WithoutUpdates(const StepOrder& order);
  double SecondsOf(const Phases& phases, const StepOrder& order);
  double TransferSeconds(const Phase& phase);
  double DriveSeconds(const Phases& phases) const;

  const PlanRequest& request_;
  const StepTrace& trace_;
  const bool waits_;                        // updates wait for the norm
  const double weight_, state_, gradient_;  // bytes of an element
  double trainable_ = 0, total_ = 0;        // elements

  // Computed once: by what they depend on of an order, and by the lanes that work.
  std::unordered_map<int64_t, Phases> without_updates_;
  std::array<std::array<double, kLaneCount>, 1 << kLaneCount> rates_;
  std::array<bool, 1 << kLaneCount> rates_known_{};
};

}  // namespace strata
