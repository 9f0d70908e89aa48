#include "runtime/plan/candidates.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr int64_t kEnough = int64_t{1} << 60;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Estimates that differ by less are taken for equal.
constexpr double kGrain = 0.005;
/// So much better than the other an estimate must be to be believed, of two kinds of
/// orders.
constexpr double kEstimateSpread = 0.05;
/// Micro-batches of a group from which on only the obvious grows with their number.
constexpr int32_t kMicroBatchesKept = 4;

int64_t Grains(double seconds) {
  return seconds == kInfinity
             ? std::numeric_limits<int64_t>::max()
             : static_cast<int64_t>(std::floor(std::log(seconds) / std::log1p(kGrain)));
}

/// The request with the middle of its layers and most of its micro-batches left out.
PlanRequest Abridged(const PlanRequest& request, const StepOrder& order) {
  PlanRequest shorter = request;
  std::vector<LayerTrace>& layers = shorter.trace.layers;
  const int32_t kept = 2 * order.segment_layers + 2;  // at each end
  if (request.trace.layer_count() > 2 * kept) {
    layers.erase(layers.begin() + kept, layers.end() - kept);
    const int32_t left_out = request.trace.layer_count() - shorter.trace.layer_count();
    for (LayerTrace& layer : layers) {
      if (layer.shared_layer >= kept) {
        layer.shared_layer = std::max(kept, layer.shared_layer - left_out);
      }
    }
  }
  const int32_t in_group = CeilDiv(request.trace.micro_batches, order.groups);
  shorter.trace.micro_batches =
      std::min(request.trace.micro_batches,
               std::min(order.groups, 2) * std::min(in_group, kMicroBatchesKept));
  return shorter;
}

}  // namespace

PlanKey SteadyKey(const PlanRequest& request, const Decisions& decisions) {
  PlanSetOptions options{{request.trace.micro_batches}, false};
  if (request.plans.train_micro_batches.empty()) options = request.plans;
  const std::vector<PlanKey> keys = PlanKeys(request.trace, decisions, options);
  const auto steady = std::find_if(keys.begin(), keys.end(), [](const PlanKey& key) {
    return key.kind == PlanKind::kTrain && key.start == Border::kPending;
  });
  return steady != keys.end() ? *steady : keys.front();
}

Candidates::Candidates(const PlanRequest& request)
    : request_(request), trace_(request.trace), estimate_(request), orders_(Orders()) {}

int64_t Candidates::SliceElements(int32_t depth) const {
  if (request_.overrides.slice_elements) return *request_.overrides.slice_elements;
  int64_t largest = 0;
  for (const LayerTrace& layer : trace_.layers) {
    largest = std::max(largest, layer.trainable_elements);
  }
  // An eighth of the largest layer keeps the lanes busy; less saves buffers.
  const int64_t share = depth > 0 ? 8 : 32;
  return std::max(CeilDiv(largest, share * trace_.tile_elements), int64_t{1}) *
         trace_.tile_elements;
}

// Shares of lagged and CPU updates are left open.
std::vector<StepOrder> Candidates::Orders() const {
  const PlannerOverrides& fixed = request_.overrides;
  const int32_t most_groups = trace_.micro_batches;
  std::vector<int32_t> groups{1}, segments;
  for (int32_t g = 2; g < most_groups; g *= 2) groups.push_back(g);
  if (most_groups > 1) groups.push_back(most_groups);
  if (fixed.groups) groups = {std::clamp(*fixed.groups, 1, most_groups)};
  for (int32_t k = 1; k <= std::min(8, std::max(1, trace_.layer_count() - 2)); k *= 2) {
    segments.push_back(k);
  }
  if (fixed.segment_layers) segments = {*fixed.segment_layers};
  std::vector<int32_t> depths{1, 2, 0};
  if (fixed.depth) depths = {*fixed.depth};
  std::vector<TierKind> tiers{TierKind::kDevice, TierKind::kHost, TierKind::kNvme};
  if (request_.pins.activations) tiers = {*request_.pins.activations};
  std::vector<StepOrder> orders;
  for (const int32_t group : groups) {
    for (const int32_t depth : depths) {
      for (const TierKind tier : tiers) {
        for (const int32_t segment : segments) {
          // More prefetching is for the weights of longer segments.
          if (depth == 2 && segment == 1 && !fixed.depth) continue;
          StepOrder order{segment, group, depth, SliceElements(depth), tier};
          for (const double weights : {0.0, 0.25, 0.5, 0.75, 1.0}) {
            if (weights > 0 && (request_.pins.weights || depth == 0)) break;
            order.weight_share = weights;
            orders.push_back(order);
          }
        }
      }
    }
  }
  return orders;
}

// What an order takes beside what rests between steps.
TierBytes Candidates::BufferBytes(const StepOrder& order, bool uses_nvme) {
  const bool all_on_cpu = order.cpu_share >= 1;
  const int64_t key = KindOf(order) * 4 + (all_on_cpu ? 2 : 0) + (uses_nvme ? 1 : 0);
  const auto [known, is_new] = buffers_.try_emplace(key);
  if (is_new) known->second = MeasureBuffers(order, uses_nvme);
  TierBytes bytes = known->second;
  const bool could_lag = trace_.updates_wait_for_norm && !all_on_cpu &&
                         request_.pins.weights != TierKind::kDevice &&
                         request_.pins.optimizer != TierKind::kDevice;
  if (could_lag && order.lagged_share <= 0) {
    // No old and no speculated weights on their way.
    bytes.device -= 2 * StateSlots(order) * order.slice_elements * trace_.format.weight;
  }
  return bytes;
}

// As a shorter step shows it, of which some is lagged, with what grows with the layers
// and micro-batches that it leaves out.
TierBytes Candidates::MeasureBuffers(const StepOrder& order, bool uses_nvme) const {
  const PlanRequest shorter = Abridged(request_, order);
  StepOrder sample = order;
  sample.groups = std::min(order.groups, 2);
  sample.lagged_share = 0.5;
  sample.cpu_share = order.cpu_share >= 1 ? 1 : 0.25;
  sample.weight_share = 0;
  const Decisions decisions =
      DecideHomes(shorter, sample, {0, uses_nvme ? 0 : kEnough, kEnough});
  const std::vector<PlanKey> keys{SteadyKey(shorter, decisions)};
  const absl::StatusOr<TierBytes> arenas =
      MeasureArenas(shorter.trace, decisions, keys);
  if (!arenas.ok()) return {kEnough, kEnough, kEnough};
  TierBytes bytes = *arenas;
  const TierBytes homes = HomeBytes(shorter.trace, decisions);
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    bytes[tier] -= homes[tier];
  }
  const int64_t in_group = CeilDiv(trace_.micro_batches, order.groups);
  const int64_t sampled = CeilDiv(shorter.trace.micro_batches, sample.groups);
  bytes[order.activations] +=
      in_group * BorderBytes(trace_, order.segment_layers) -
      sampled * BorderBytes(shorter.trace, order.segment_layers);
  if (order.depth > 0 && order.activations != TierKind::kDevice) {
    bytes.device += (in_group - sampled) * trace_.layers.front().output_bytes;
  }
  const int64_t tiles = trace_.TotalTiles() - shorter.trace.TotalTiles();
  const int64_t fixed =
      (trace_.micro_batches - shorter.trace.micro_batches) * trace_.input_bytes +
      4 * tiles;
  bytes.device += fixed;
  bytes.host += fixed;
  if (order.groups > 1) bytes.host += kAccumulatorBytes * trace_.tile_elements * tiles;
  if (order.activations == TierKind::kNvme) bytes.nvme = 0;  // the estimate counts it
  return bytes;
}

Candidates::Choice Candidates::Try(const StepOrder& order, const LadderPoint& point) {
  const PlacementPins& pins = request_.pins;
  const bool must_use_nvme =
      order.activations == TierKind::kNvme || pins.weights == TierKind::kNvme ||
      pins.optimizer == TierKind::kNvme || pins.gradients == TierKind::kNvme;
  Choice choice{kInfinity, order, {}};
  for (const bool uses_nvme : {false, true}) {
    if (uses_nvme ? point.nvme == 0 : must_use_nvme) continue;
    const TierBytes buffers = BufferBytes(order, uses_nvme);
    const TierBytes given = point.Bytes();
    choice.homes = {given.device - buffers.device,
                    given.host - given.host / 128 - buffers.host,
                    uses_nvme ? given.nvme : 0};
    if (choice.homes.device < 0 || choice.homes.host < 0) continue;
    choice.seconds = estimate_.Seconds(order, choice.homes);
    if (choice.seconds < kInfinity) break;
  }
  return choice;
}

// The best shares: on a coarse grid, then halfway to its neighbours. `rival` is what
// another order does; what is much slower with its shares is not looked at further.
Candidates::Choice Candidates::BestOfOrder(StepOrder order, const LadderPoint& point,
                                           const Choice& rival) {
  const PlannerOverrides& fixed = request_.overrides;
  const auto shares = [&](const std::optional<double>& share, bool free) {
    if (share) return std::vector<double>{*share};
    if (!free) return std::vector<double>{0};
    if (order.depth == 0) return std::vector<double>{0, 1};
    return std::vector<double>{0, 0.25, 0.5, 0.75, 1};
  };
  const bool may_lag = trace_.updates_wait_for_norm;
  Choice best{kInfinity, order, {}};
  const auto consider = [&](double lagged, double on_cpu) {
    order.lagged_share = std::clamp(lagged, 0.0, 1.0);
    order.cpu_share = std::clamp(on_cpu, 0.0, 1.0);
    const Choice choice = Try(order, point);
    if (choice.seconds < best.seconds) best = choice;
  };
  if (rival.seconds < kInfinity && order.depth == rival.order.depth) {
    consider(rival.order.lagged_share, rival.order.cpu_share);
    if (best.seconds > 1.1 * rival.seconds && best.seconds < kInfinity) return best;
  }
  for (const double lagged : shares(fixed.lagged_share, may_lag)) {
    for (const double on_cpu : shares(fixed.cpu_share, true)) consider(lagged, on_cpu);
  }
  if (best.seconds == kInfinity) return best;
  for (const double step : {0.125, 0.0625}) {
    const double lagged = best.order.lagged_share, on_cpu = best.order.cpu_share;
    for (const double change : {-step, step}) {
      if (may_lag && !fixed.lagged_share) consider(lagged + change, on_cpu);
      if (!fixed.cpu_share) consider(lagged, on_cpu + change);
    }
  }
  return best;
}

const Candidates::Best& Candidates::BestAt(const LadderPoint& point) {
  const auto known = best_.find(point);
  if (known != best_.end()) return known->second;
  const Choice none{kInfinity, {}, {}};
  Best best{none, none};
  for (const StepOrder& order : orders_) {
    Choice& best_of_kind =
        order.weight_share > 0 ? best.weights_first : best.state_first;
    const Choice choice = BestOfOrder(order, point, best_of_kind);
    if (choice.seconds < best_of_kind.seconds) best_of_kind = choice;
  }
  return best_.emplace(point, best).first->second;
}

double Candidates::SecondsAt(const LadderPoint& point) {
  const Best& best = BestAt(point);
  return std::min(best.state_first.seconds, best.weights_first.seconds);
}

LadderPoint Candidates::Lean(const LadderPoint& point) {
  const Best best = BestAt(point);
  const Choice& choice = best.state_first.seconds <= best.weights_first.seconds
                             ? best.state_first
                             : best.weights_first;
  const int64_t grains = Grains(choice.seconds);
  LadderPoint lean = point;
  for (const TierKind tier : {TierKind::kNvme, TierKind::kHost, TierKind::kDevice}) {
    const auto is_as_good = [&](int32_t level) {
      LadderPoint lower = lean;
      lower[tier] = level;
      return Grains(Try(choice.order, lower).seconds) <= grains;
    };
    // Steps that double, from the top, then bisection.
    int32_t good = lean[tier], step = 1;
    while (good - step >= 0 && is_as_good(good - step)) good -= step, step *= 2;
    int32_t bad = std::max(good - step, -1);
    while (good - bad > 1) {
      const int32_t middle = bad + (good - bad) / 2;
      (is_as_good(middle) ? good : bad) = middle;
    }
    lean[tier] = good;
  }
  return lean;
}

// Buffers change with what is at home where (staging, packing), so the bytes for homes
// are corrected by what they lead to.
absl::StatusOr<std::optional<Candidate>> Candidates::Fill(const StepOrder& order,
                                                          TierBytes homes,
                                                          const TierBytes& given) {
  // What need not rest on nvme stays in host memory, whether or not that is too much.
  const bool spills = homes.nvme > 0;
  std::optional<Candidate> fits;
  for (int attempt = 0; attempt < 5; ++attempt) {
    TierBytes bytes = homes;
    if (!spills) bytes.host = kEnough;
    Candidate candidate{order, DecideHomes(request_, order, bytes), {}};
    const std::vector<PlanKey> keys{SteadyKey(request_, candidate.decisions)};
    STRATA_ASSIGN_OR_RETURN(candidate.need,
                            MeasureArenas(trace_, candidate.decisions, keys));
    const int64_t device_left = given.device - candidate.need.device;
    const int64_t host_left = given.host - candidate.need.host;
    if (device_left >= 0 && (host_left >= 0 || !spills)) {
      fits = std::move(candidate);
      const bool host_is_full = !spills || host_left <= given.host / 64;
      if (attempt > 1 || (device_left <= given.device / 64 && host_is_full)) break;
      homes.device += device_left;
      homes.host += host_is_full ? 0 : host_left;
      continue;
    }
    if (fits) break;
    homes.device += device_left;
    if (spills) homes.host += std::min<int64_t>(host_left, 0);
  }
  return fits;
}

absl::StatusOr<const std::vector<Candidate>*> Candidates::At(const LadderPoint& point) {
  const auto known = found_.find(point);
  if (known != found_.end()) return &known->second;
  std::vector<Candidate> found;
  const Best best = BestAt(point);
  const double limit = (1 + kEstimateSpread) * SecondsAt(point);
  for (const Choice& choice : {best.state_first, best.weights_first}) {
    if (choice.seconds == kInfinity || choice.seconds > limit) continue;
    STRATA_ASSIGN_OR_RETURN(std::optional<Candidate> filled,
                            Fill(choice.order, choice.homes, point.Bytes()));
    if (filled) found.push_back(*std::move(filled));
  }
  return &found_.emplace(point, std::move(found)).first->second;
}

}  // namespace strata
