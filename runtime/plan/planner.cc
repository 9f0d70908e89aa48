#include "runtime/plan/planner.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/plan/refusal.h"
#include "runtime/plan/residency.h"

namespace strata {
namespace {

constexpr int64_t kEnough = int64_t{1} << 60;

/// One fully decided step with its price.
absl::Status NothingFits() { return absl::ResourceExhaustedError(""); }

struct Candidate {
  StepOrder order;
  Decisions decisions;
  TierBytes need;  // arenas
  double seconds = std::numeric_limits<double>::infinity();
  bool fits = false;
};

class Search {
 public:
  explicit Search(const PlanRequest& request)
      : request_(request), trace_(request.trace) {
    budget_ = {request.budgets.device_bytes, request.budgets.host_bytes,
               request.budgets.nvme_bytes};
  }

  /// ResourceExhausted, without a word, if nothing fits.
  absl::StatusOr<PlannedStep> Run();
  absl::StatusOr<PlannedStep> Take(const Decisions& decisions);

  /// After that: the smallest raise of one budget, by its factor, with which a plan
  /// that was seen fits; and the least device memory of all of them.
  std::optional<Advice> CheapestChange() const;
  int64_t least_device_bytes() const { return smallest_.device; }

 private:
  absl::StatusOr<Candidate> Evaluate(const StepOrder& order);
  absl::StatusOr<Candidate> Place(const StepOrder& order, const TierBytes& homes);
  absl::Status Consider(const StepOrder& order);
  absl::Status TryOrders(int32_t depth, int32_t groups);
  absl::Status Improve();
  absl::StatusOr<PlannedStep> Finish();
  void Describe(PlannedStep& planned) const;
  Forecast Price(const PlanSet& set) const;
  int64_t HostHomes(const StepOrder& order, int64_t device) const;
  std::vector<PlanKey> SearchKeys(const Decisions& decisions) const;
  int64_t SliceElements(int32_t depth) const;
  std::vector<int32_t> SegmentChoices() const;
  std::vector<TierKind> ActivationChoices() const;
  absl::Status Explore();
  void Note(const TierBytes& need);
  bool Fits(const TierBytes& need) const {
    return need.device <= budget_.device && need.host <= budget_.host &&
           need.nvme <= budget_.nvme;
  }

  const PlanRequest& request_;
  const StepTrace& trace_;
  TierBytes budget_;
  std::map<StepOrder, Candidate> seen_;
  Candidate best_;
  TierBytes least_{kEnough, kEnough, kEnough};     // where the other tiers fit
  TierBytes smallest_{kEnough, kEnough, kEnough};  // whatever the others take
};

int64_t Search::SliceElements(int32_t depth) const {
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

std::vector<int32_t> Search::SegmentChoices() const {
  if (request_.overrides.segment_layers) return {*request_.overrides.segment_layers};
  std::vector<int32_t> choices;
  for (int32_t k = 1; k <= std::min(8, std::max(1, trace_.layer_count() - 2)); k *= 2) {
    choices.push_back(k);
  }
  return choices;
}

std::vector<TierKind> Search::ActivationChoices() const {
  if (request_.pins.activations) return {*request_.pins.activations};
  std::vector<TierKind> choices{TierKind::kDevice, TierKind::kHost};
  if (budget_.nvme > 0) choices.push_back(TierKind::kNvme);
  return choices;
}

// Only the steady step and its link to itself are needed to price a candidate.
std::vector<PlanKey> Search::SearchKeys(const Decisions& decisions) const {
  if (request_.plans.train_micro_batches.empty()) {
    return PlanKeys(trace_, decisions, request_.plans);  // nothing but the evaluation
  }
  std::vector<PlanKey> keys =
      PlanKeys(trace_, decisions, {{trace_.micro_batches}, false});
  const auto steady = std::find_if(keys.begin(), keys.end(), [](const PlanKey& key) {
    return key.kind == PlanKind::kTrain && key.start == Border::kPending;
  });
  if (steady != keys.end()) return {*steady};
  return {keys.front()};
}

Forecast Search::Price(const PlanSet& set) const {
  int32_t steady = 0;
  for (size_t i = 0; i < set.plans.size(); ++i) {
    const PlanKey& key = set.plans[i].key;
    const PlanKey& best = set.plans[static_cast<size_t>(steady)].key;
    if (key.kind == PlanKind::kTrain && key.speculate &&
        key.micro_batches == trace_.micro_batches && key.start == Border::kPending &&
        best.start != Border::kPending) {
      steady = static_cast<int32_t>(i);
    }
  }
  const std::vector<int32_t> sequence(3, steady);
  return Simulate(set, sequence, request_.profile);
}

absl::StatusOr<Candidate> Search::Place(const StepOrder& order,
                                        const TierBytes& homes) {
  Candidate candidate{order, DecideHomes(request_, order, homes), {}};
  const std::vector<PlanKey> keys = SearchKeys(candidate.decisions);
  STRATA_ASSIGN_OR_RETURN(candidate.need,
                          MeasureArenas(trace_, candidate.decisions, keys));
  Note(candidate.need);
  candidate.fits = Fits(candidate.need);
  if (!candidate.fits) return candidate;
  STRATA_ASSIGN_OR_RETURN(const PlanSet set,
                          CompilePlanSet(trace_, candidate.decisions, keys));
  candidate.seconds = Price(set).seconds;
  return candidate;
}

// Remembers what the least budgets would be, for the case that nothing fits.
void Search::Note(const TierBytes& need) {
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    TierBytes others = need;
    others[tier] = 0;
    if (Fits(others)) least_[tier] = std::min(least_[tier], need[tier]);
    smallest_[tier] = std::min(smallest_[tier], need[tier]);
  }
}

absl::StatusOr<Candidate> Search::Evaluate(const StepOrder& order) {
  if (const auto known = seen_.find(order); known != seen_.end()) return known->second;
  // With no home on the device and all of them in the host: what the buffers take.
  STRATA_ASSIGN_OR_RETURN(Candidate best, Place(order, {0, kEnough, kEnough}));
  if (best.need.device > budget_.device) return seen_[order] = best;
  // What is left of each budget is given to homes. Buffers change with that (staging
  // for what goes to nvme, packing), so the shares are corrected by what they lead to.
  TierBytes homes{budget_.device - best.need.device,
                  budget_.host - (best.need.host - HostHomes(order, 0)), kEnough};
  for (int32_t attempt = 0; attempt < 6; ++attempt) {
    STRATA_ASSIGN_OR_RETURN(const Candidate candidate, Place(order, homes));
    if (candidate.seconds < best.seconds || !best.fits) best = candidate;
    const int64_t device_left = budget_.device - candidate.need.device;
    const int64_t host_left = budget_.host - candidate.need.host;
    const bool host_is_full = candidate.need.nvme == 0 || host_left < budget_.host / 32;
    const bool device_is_full = device_left < budget_.device / 32 || attempt >= 3;
    if (candidate.fits && host_is_full && device_is_full) break;
    homes.device += device_left < 0 ? device_left : device_left / 2;
    homes.host += host_left < 0 ? host_left : host_left / 2;
  }
  return seen_[order] = best;
}

int64_t Search::HostHomes(const StepOrder& order, int64_t device) const {
  const Decisions decisions = DecideHomes(request_, order, {device, kEnough, kEnough});
  int64_t bytes = 0;
  for (size_t l = 0; l < decisions.layers.size(); ++l) {
    const LayerDecision& layer = decisions.layers[l];
    if (layer.weights == TierKind::kHost) {
      bytes += trace_.layers[l].total_elements * trace_.format.weight;
    }
    for (const SliceDecision& slice : layer.slices) {
      const int64_t elements = slice.end - slice.begin;
      if (slice.state == TierKind::kHost) bytes += elements * trace_.format.state;
      if (slice.gradient == TierKind::kHost && slice.mode != UpdateMode::kImmediate) {
        bytes += elements * trace_.format.gradient;
      }
      if (slice.mode == UpdateMode::kLagged) bytes += elements * trace_.format.weight;
    }
  }
  return bytes;
}

absl::Status Search::Consider(const StepOrder& order) {
  STRATA_ASSIGN_OR_RETURN(const Candidate candidate, Evaluate(order));
  if (candidate.fits && candidate.seconds < best_.seconds) best_ = candidate;
  return absl::OkStatus();
}

absl::Status Search::TryOrders(int32_t depth, int32_t groups) {
  for (const TierKind activations : ActivationChoices()) {
    for (const int32_t segment : SegmentChoices()) {
      const StepOrder order{segment,
                            groups,
                            depth,
                            SliceElements(depth),
                            activations,
                            request_.overrides.lagged_share.value_or(0),
                            request_.overrides.cpu_share.value_or(0)};
      STRATA_RETURN_IF_ERROR(Consider(order));
    }
  }
  return absl::OkStatus();
}

// Shares of lagged and CPU updates: from the best so far, while a change helps.
absl::Status Search::Improve() {
  const bool may_lag = !request_.overrides.lagged_share && trace_.updates_wait_for_norm;
  const bool may_use_cpu = !request_.overrides.cpu_share;
  for (const double share : {0.5, 1.0}) {
    StepOrder order = best_.order;
    if (may_lag) order.lagged_share = share;
    if (may_lag) STRATA_RETURN_IF_ERROR(Consider(order));
    order = best_.order;
    if (may_use_cpu) order.cpu_share = share;
    if (may_use_cpu) STRATA_RETURN_IF_ERROR(Consider(order));
  }
  for (double step = 0.25; step >= 0.125; step /= 2) {
    bool improved = true;
    for (int32_t round = 0; improved && round < 4; ++round) {
      const double before = best_.seconds;
      const StepOrder center = best_.order;
      for (const double change : {-step, step}) {
        StepOrder order = center;
        order.lagged_share = std::clamp(center.lagged_share + change, 0.0, 1.0);
        if (may_lag) STRATA_RETURN_IF_ERROR(Consider(order));
        order = center;
        order.cpu_share = std::clamp(center.cpu_share + change, 0.0, 1.0);
        if (may_use_cpu) STRATA_RETURN_IF_ERROR(Consider(order));
      }
      improved = best_.seconds < before;
    }
  }
  return absl::OkStatus();
}

// Sets best_ to the best order of all, before its shares are improved.
absl::Status Search::Explore() {
  const int32_t most_groups = trace_.micro_batches;
  std::vector<int32_t> groups{1};
  if (request_.overrides.groups) {
    groups = {std::clamp(*request_.overrides.groups, 1, most_groups)};
  } else {
    for (int32_t g = 2; g < most_groups; g *= 2) groups.push_back(g);
    if (most_groups > 1) groups.push_back(most_groups);
  }
  const std::vector<int32_t> depths =
      request_.overrides.depth ? std::vector<int32_t>{*request_.overrides.depth}
                               : std::vector<int32_t>{2, 1, 0};
  // More groups and less prefetching cost time: only where nothing else fits.
  for (const int32_t count : groups) {
    for (const int32_t depth : depths) {
      STRATA_RETURN_IF_ERROR(TryOrders(depth, count));
    }
    if (best_.fits) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<PlannedStep> Search::Run() {
  STRATA_RETURN_IF_ERROR(Explore());
  if (!best_.fits) return NothingFits();
  STRATA_RETURN_IF_ERROR(Improve());
  return Finish();
}

absl::StatusOr<PlannedStep> Search::Take(const Decisions& decisions) {
  PlannedStep planned;
  planned.decisions = decisions;
  STRATA_ASSIGN_OR_RETURN(
      planned.set,
      CompilePlanSet(trace_, decisions, PlanKeys(trace_, decisions, request_.plans)));
  if (!Fits(planned.set.arena_bytes)) {
    Note(planned.set.arena_bytes);
    return NothingFits();
  }
  Describe(planned);
  return planned;
}

void Search::Describe(PlannedStep& planned) const {
  planned.forecast = Price(planned.set);
  const int32_t steady = planned.set.Find(SearchKeys(planned.decisions).front());
  STRATA_CHECK(steady >= 0);
  planned.floor_seconds = FloorSeconds(
      planned.set, planned.set.plans[static_cast<size_t>(steady)], request_.profile);
}

absl::StatusOr<PlannedStep> Search::Finish() {
  const TierBytes given = budget_;
  std::vector<TierBytes> needs;  // of whole sets that do not fit
  PlannedStep planned;
  while (true) {
    planned.decisions = best_.decisions;
    STRATA_ASSIGN_OR_RETURN(
        planned.set, CompilePlanSet(trace_, best_.decisions,
                                    PlanKeys(trace_, best_.decisions, request_.plans)));
    // Another plan of the set (the first step, a clipped one) may take more than the
    // steady one: make room by as much.
    bool fits = true;
    for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
      const int64_t over = planned.set.arena_bytes[tier] - given[tier];
      if (over <= 0) continue;
      fits = false;
      budget_[tier] -= over;
    }
    if (fits) break;
    needs.push_back(planned.set.arena_bytes);
    seen_.clear();
    STRATA_ASSIGN_OR_RETURN(best_, Evaluate(StepOrder(best_.order)));
    if (!best_.fits) STRATA_RETURN_IF_ERROR(Explore());
    if (best_.fits) continue;
    // What steady plans alone need would be no advice.
    budget_ = given;
    least_ = smallest_ = {kEnough, kEnough, kEnough};
    for (const TierBytes& need : needs) Note(need);
    return NothingFits();
  }
  Describe(planned);
  return planned;
}

std::optional<Advice> Search::CheapestChange() const {
  std::optional<Advice> cheapest;
  double factor = std::numeric_limits<double>::infinity();
  for (const TierKind tier : {TierKind::kDevice, TierKind::kHost, TierKind::kNvme}) {
    if (least_[tier] == kEnough) continue;
    const double grows = static_cast<double>(least_[tier]) /
                         static_cast<double>(std::max<int64_t>(budget_[tier], 1));
    if (grows < factor) factor = grows, cheapest = Advice{tier, least_[tier]};
  }
  return cheapest;
}

// Advice comes from steady plans; what the whole set takes shows when it is followed.
absl::StatusOr<std::optional<Advice>> Tried(PlanRequest request,
                                            std::optional<Advice> advice) {
  constexpr int kAttemptsMax = 8;
  for (int attempt = 0; advice && attempt < kAttemptsMax; ++attempt) {
    Follow(*advice, request.budgets);
    Search search(request);
    const absl::StatusOr<PlannedStep> planned = search.Run();
    if (planned.ok()) return advice;
    if (!absl::IsResourceExhausted(planned.status())) return planned.status();
    const std::optional<Advice> next = search.CheapestChange();
    if (!next || next->tier != advice->tier || next->bytes <= advice->bytes) break;
    advice = next;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<PlannedStep> PlanStep(const PlanRequest& request) {
  Search search(request);
  const bool decided = request.overrides.decisions.has_value();
  absl::StatusOr<PlannedStep> planned =
      decided ? search.Take(*request.overrides.decisions) : search.Run();
  if (!absl::IsResourceExhausted(planned.status())) return planned;
  std::optional<Advice> advice = search.CheapestChange();
  if (!decided) {
    STRATA_ASSIGN_OR_RETURN(advice, Tried(request, advice));
  }
  return RefuseBudgets(request, search.least_device_bytes(), advice);
}

}  // namespace strata
