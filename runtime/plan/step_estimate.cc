#include "runtime/plan/step_estimate.h"

#include <algorithm>
#include <limits>

namespace strata {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kForward = 0, kBackward = 1;
/// Of the loads that come late, this is seen: the segment before still computes.
constexpr double kLateShare = 0.75;

// The share that is at home on the device.
double PinnedShare(const std::optional<TierKind>& pin, double free) {
  return pin ? (*pin == TierKind::kDevice ? 1.0 : 0.0) : free;
}

}  // namespace

int64_t BorderBytes(const StepTrace& trace, int32_t segment_layers) {
  int64_t bytes = 0;
  const int32_t head = trace.layer_count() - 1;
  for (int32_t end = segment_layers + 1; end < head; end += segment_layers) {
    bytes += trace.layers[end - 1].output_bytes;
  }
  return bytes;
}

StepEstimate::StepEstimate(const PlanRequest& request)
    : request_(request),
      trace_(request.trace),
      waits_(request.trace.updates_wait_for_norm),
      weight_(static_cast<double>(request.trace.format.weight)),
      state_(static_cast<double>(request.trace.format.state)),
      gradient_(waits_ ? static_cast<double>(request.trace.format.gradient) : 0) {
  for (const LayerTrace& layer : trace_.layers) {
    trainable_ += static_cast<double>(layer.trainable_elements);
    total_ += static_cast<double>(layer.total_elements);
  }
}

double StepEstimate::Seconds(const StepOrder& order, const TierBytes& home_bytes) {
  Homes homes;
  Drive drive;
  if (!PlaceOnDevice(order, static_cast<double>(home_bytes.device), &homes) ||
      !PlaceOnDrive(order, home_bytes, homes, &drive)) {
    return kInfinity;
  }
  Phases phases = WithoutUpdates(order);
  AddWeights(order, homes, drive, phases);
  Phases first_and_last = phases;
  for (const Part& part : homes.parts) AddUpdate(part, drive, order, first_and_last);
  double seconds = SecondsOf(first_and_last, order);
  double drive_seconds = DriveSeconds(first_and_last);
  if (order.groups > 1) {
    // Accumulators come and go in one buffer: the backward waits for them.
    const MachineProfile& profile = request_.profile;
    const double moves = kAccumulatorBytes * trainable_ *
                         (1 / profile.host_to_device + 1 / profile.device_to_host);
    seconds += (order.groups - 1) * (SecondsOf(phases, order) + kLateShare * moves);
    drive_seconds += (order.groups - 1) * DriveSeconds(phases);
  }
  // The drive works ahead over the turn of the step, too.
  return std::max(seconds, drive_seconds);
}

// As DecideHomes does it, on sums.
bool StepEstimate::PlaceOnDevice(const StepOrder& order, double device,
                                 Homes* homes) const {
  const PlacementPins& pins = request_.pins;
  device -= PinnedShare(pins.weights, 0) * weight_ * total_ +
            (PinnedShare(pins.optimizer, 0) * state_ +
             PinnedShare(pins.gradients, 0) * gradient_) *
                trainable_;
  if (device < 0) return false;
  const double weight_moves = pins.weights ? 0 : weight_;
  const double update_moves =
      (pins.optimizer ? 0 : state_) + (pins.gradients ? 0 : gradient_);
  double total = total_, trainable = trainable_;
  const bool pinned = pins.weights || pins.optimizer || pins.gradients;
  for (size_t l = 0; !pinned && l < std::min<size_t>(2, trace_.layers.size()); ++l) {
    const double layer_total = static_cast<double>(trace_.layers[l].total_elements);
    const double updated = static_cast<double>(trace_.layers[l].trainable_elements);
    const double bytes = weight_moves * layer_total + update_moves * updated;
    if (bytes > device) continue;
    device -= bytes;
    total -= layer_total;
    trainable -= updated;
  }
  homes->parts[0] = {trainable_ - trainable, true, true, 1};
  const auto take = [&device](double elements, double unit) {
    const double taken = unit > 0 ? std::min(elements, device / unit) : 0;
    device -= taken * unit;
    return taken;
  };
  double weights = take(order.weight_share * total, weight_moves);
  const double updates = take(trainable, update_moves) / std::max(trainable, 1.0);
  weights += take(total - weights, weight_moves);
  const double w = PinnedShare(pins.weights, weights / std::max(total, 1.0));
  const double s = PinnedShare(pins.optimizer, updates);
  const double g = PinnedShare(pins.gradients, updates);
  const bool together = !pins.optimizer && !pins.gradients;
  const double with_state = together ? 1 : g, without_state = together ? 0 : g;
  homes->weights = (1 - w) * total;
  homes->parts[1] = {trainable * w * s, true, true, with_state};
  homes->parts[2] = {trainable * w * (1 - s), true, false, without_state};
  homes->parts[3] = {trainable * (1 - w) * s, false, true, with_state};
  const double streamed = trainable * (1 - w) * (1 - s);
  const double lagged = waits_ ? order.lagged_share : 0;
  const double on_cpu = order.cpu_share * (1 - without_state);
  for (size_t i = 0; i < 4; ++i) {
    const bool lags = i % 2 == 1, cpu = i >= 2;
    homes->parts[4 + i] = {
        streamed * (lags ? lagged : 1 - lagged) * (cpu ? on_cpu : 1 - on_cpu),
        false,
        false,
        cpu ? 0 : without_state,
        lags,
        cpu};
  }
  return true;
}

// Optimizer state goes to nvme first, then gradients, speculated weights and weights.
bool StepEstimate::PlaceOnDrive(const StepOrder& order, const TierBytes& given,
                                const Homes& homes, Drive* drive) const {
  const PlacementPins& pins = request_.pins;
  double state = 0, gradient = 0, speculated = 0;
  for (const Part& part : homes.parts) {
    state += part.state_on_device ? 0 : state_ * part.elements;
    gradient += gradient_ * part.elements * (1 - part.gradient_on_device);
    speculated += part.lagged ? weight_ * part.elements : 0;
  }
  const double weights = weight_ * homes.weights;
  double over =
      state + gradient + speculated + weights - static_cast<double>(given.host);
  double on_drive = 0;
  const auto spill = [&](double bytes, const std::optional<TierKind>& pin) {
    const double moved =
        pin ? (*pin == TierKind::kNvme ? bytes : 0) : std::clamp(over, 0.0, bytes);
    over -= moved;
    on_drive += moved;
    return bytes > 0 ? moved / bytes : 0;
  };
  drive->state = spill(state, pins.optimizer);
  drive->gradient = spill(gradient, pins.gradients);
  drive->speculated = spill(speculated, std::nullopt);
  drive->weights = spill(weights, pins.weights);
  if (order.activations == TierKind::kNvme) {
    on_drive += static_cast<double>(BorderBytes(trace_, order.segment_layers)) *
                trace_.micro_batches;
  }
  return over <= 0 && on_drive <= static_cast<double>(given.nvme);
}

void StepEstimate::AddUpdate(const Part& part, const Drive& drive,
                             const StepOrder& order, Phases& phases) const {
  const double n = part.elements;
  const double settle = 2 * (weight_ + state_) + gradient_;
  const double speculate = 2 * weight_ + state_ + gradient_;
  const double home_weight = part.weights_on_device ? 0 : weight_;
  const double home_state = part.state_on_device ? 0 : state_;
  const double home_gradient = gradient_ * (1 - part.gradient_on_device);
  const double slices = n / std::max(1.0, static_cast<double>(order.slice_elements));
  phases[kBackward].operations += slices;
  phases[kBackward].device += n * (2 * kAccumulatorBytes + gradient_);
  const bool deferred = waits_ && !part.lagged;
  Phase& phase = phases[deferred ? kForward : kBackward];
  const double moved_state = home_state * drive.state;
  const double moved_weight = home_weight * drive.weights;
  const double moved_gradient = home_gradient * drive.gradient;
  phase.read += n * (moved_state + moved_gradient);
  phase.write += n * (moved_state + moved_weight);
  phases[kBackward].write += n * moved_gradient;
  if (part.lagged) phase.write += n * weight_ * drive.speculated;
  if (part.lagged) phase.read += n * moved_weight;
  if (part.on_cpu) {
    // One pass settles and speculates.
    phase.cpu += n * (settle + (part.lagged ? 2 * gradient_ + weight_ : 0));
    phases[kBackward].out += n * static_cast<double>(trace_.format.gradient);
    return;
  }
  phase.operations += slices * (part.lagged ? 2 : 1);
  phase.device += n * (settle + (part.lagged ? speculate : 0));
  phase.in += n * (home_state + home_gradient + (part.lagged ? weight_ : 0));
  phase.out += n * (home_state + home_weight + (part.lagged ? weight_ : 0));
  phases[kBackward].out += n * home_gradient;
}

void StepEstimate::AddWeights(const StepOrder& order, const Homes& homes,
                              const Drive& drive, Phases& phases) const {
  const double bytes = weight_ * homes.weights;
  const int32_t last = trace_.layer_count() - 1;
  double kept = 0;  // from the forward for the backward, around the turn
  for (int32_t l = std::max(0, last - order.segment_layers); l <= last; ++l) {
    kept += static_cast<double>(trace_.layers[l].total_elements);
  }
  phases[kForward].in += bytes;
  phases[kForward].read += bytes * drive.weights;
  phases[kBackward].in += bytes * (1 - kept / total_);
  phases[kBackward].read += bytes * (1 - kept / total_) * drive.weights;
}

// Of one group: the activations, accumulators and computations.
const StepEstimate::Phases& StepEstimate::WithoutUpdates(const StepOrder& order) {
  const auto [known, is_new] = without_updates_.try_emplace(KindOf(order));
  if (!is_new) return known->second;
  Phases& phases = known->second;
  AddActivations(order, phases);
  if (order.groups > 1) {
    phases[kBackward].in += kAccumulatorBytes * trainable_;
    phases[kBackward].out += kAccumulatorBytes * trainable_;
  }
  AddCompute(order, phases);
  return phases;
}

void StepEstimate::AddActivations(const StepOrder& order, Phases& phases) const {
  if (order.activations == TierKind::kDevice) return;
  const double bytes = static_cast<double>(BorderBytes(trace_, order.segment_layers)) *
                       trace_.micro_batches / order.groups;
  const bool comes_back = order.depth == 0 && trace_.micro_batches > order.groups;
  auto& [forward, backward] = phases;
  forward.out += bytes;
  forward.in += comes_back ? bytes : 0;
  backward.out += comes_back ? bytes : 0;
  backward.in += comes_back ? 2 * bytes : bytes;
  if (order.activations != TierKind::kNvme) return;
  for (Phase& phase : phases) {
    phase.read += phase.in > 0 && comes_back ? bytes : 0;
    phase.write += comes_back ? bytes : 0;
  }
  forward.write += comes_back ? 0 : bytes;
  backward.read += bytes;
}

void StepEstimate::AddCompute(const StepOrder& order, Phases& phases) const {
  auto& [forward, backward] = phases;
  const double count = static_cast<double>(trace_.micro_batches) / order.groups;
  const int32_t head = trace_.layer_count() - 1;
  for (int32_t l = 0; l < head; ++l) {
    const LayerTrace& layer = trace_.layers[l];
    const bool recomputes = layer.saved_bytes > 0 || order.segment_layers > 1;
    forward.flops += count * layer.forward_flops;
    backward.flops +=
        count * (layer.backward_flops + (recomputes ? layer.forward_flops : 0));
    forward.operations += count;
    backward.operations += count * (recomputes ? 2 : 1);
  }
  // The turn: either phase's transfers may still be under way.
  for (Phase& phase : phases) {
    phase.flops += count * trace_.layers[head].backward_flops / 2;
    phase.operations += count / 2;
  }
}

double StepEstimate::DriveSeconds(const Phases& phases) const {
  double read = 0, write = 0;
  for (const Phase& phase : phases) {
    read += phase.read / request_.profile.nvme_read;
    write += phase.write / request_.profile.nvme_write;
  }
  const double shares = std::max(1.0, DriveShares(request_.profile));
  return std::max({read, write, (read + write) / shares});
}

// All transfers and the cpu lane at once, at the rates that they leave each other.
double StepEstimate::TransferSeconds(const Phase& phase) {
  std::array<double, kLaneCount> left{};
  left[static_cast<size_t>(Lane::kHostToDevice)] = phase.in;
  left[static_cast<size_t>(Lane::kDeviceToHost)] = phase.out;
  left[static_cast<size_t>(Lane::kCpu)] = phase.cpu;
  left[static_cast<size_t>(Lane::kNvmeRead)] = phase.read;
  left[static_cast<size_t>(Lane::kNvmeWrite)] = phase.write;
  double seconds = 0;
  while (true) {
    std::array<bool, kLaneCount> active{};
    size_t mask = 0;
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      active[lane] = left[lane] > 1;
      mask |= size_t{active[lane]} << lane;
    }
    if (mask == 0) return seconds;
    if (!rates_known_[mask]) {
      rates_[mask] = LaneRates(request_.profile, active);
      rates_known_[mask] = true;
    }
    const std::array<double, kLaneCount>& rates = rates_[mask];
    double step = kInfinity;
    for (size_t lane = 0; lane < kLaneCount; ++lane) {
      if (active[lane]) step = std::min(step, left[lane] / rates[lane]);
    }
    for (size_t lane = 0; lane < kLaneCount; ++lane) left[lane] -= rates[lane] * step;
    seconds += step;
  }
}

double StepEstimate::SecondsOf(const Phases& phases, const StepOrder& order) {
  const MachineProfile& profile = request_.profile;
  double seconds = 0;
  for (const Phase& phase : phases) {
    const double compute = phase.flops / profile.compute_flops +
                           phase.device / profile.device_memory +
                           phase.operations * profile.op_overhead_seconds;
    const double transfers = TransferSeconds(phase);
    if (order.depth == 0) {  // without prefetching each waits for the other
      seconds += compute + transfers;
      continue;
    }
    // The weights of a segment's later layers find no room before the segment begins.
    const double late = 1.0 - static_cast<double>(order.depth) / order.segment_layers;
    seconds += std::max(compute, transfers) +
               kLateShare * std::max(0.0, late) * phase.in / profile.host_to_device;
  }
  return seconds;
}

}  // namespace strata
