#include "model/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "runtime/base/status.h"

namespace strata {
namespace {

constexpr std::array<const char*, kScheduleTypeCount> kNames = {
    "constant",      "constant_with_warmup", "linear",   "cosine",     "WarmupLR",
    "WarmupDecayLR", "WarmupCosineLR",       "OneCycle", "LRRangeTest"};

double Ratio(int64_t numerator, int64_t denominator) {
  return static_cast<double>(numerator) / static_cast<double>(denominator);
}

double HalfCosine(double progress) {
  return 0.5 * (1.0 + std::cos(std::numbers::pi * std::min(1.0, progress)));
}

// transformers: the share of the peak at its step k = update - 1.
double TransformersShare(const Schedule& schedule, int64_t k) {
  const int64_t warmup = schedule.warmup_steps;
  if (schedule.type == ScheduleType::kConstant) return 1;
  if (k < warmup) return Ratio(k, std::max<int64_t>(1, warmup));
  if (schedule.type == ScheduleType::kConstantWithWarmup) return 1;
  const int64_t rest = std::max<int64_t>(1, schedule.total_steps - warmup);
  if (schedule.type == ScheduleType::kCosine)
    return HalfCosine(Ratio(k - warmup, rest));
  return std::max(0.0, Ratio(schedule.total_steps - k, rest));
}

// DeepSpeed's classes at their last_batch_iteration k >= 0.
double DeepSpeedWarmup(const Schedule& schedule, int64_t k, int64_t warmup) {
  if (schedule.warmup_shape == WarmupShape::kLinear) return Ratio(k, warmup);
  return std::log(static_cast<double>(k + 1)) / std::log(static_cast<double>(warmup));
}

double WarmupDecay(const Schedule& schedule, int64_t k) {
  const int64_t warmup = std::max<int64_t>(2, schedule.warmup_steps);
  double gamma = 1;
  if (k < warmup) {
    gamma = DeepSpeedWarmup(schedule, k, warmup);
  } else if (schedule.type == ScheduleType::kWarmupDecayLr) {
    const int64_t rest = std::max<int64_t>(1, schedule.total_steps - warmup);
    gamma = std::max(0.0, Ratio(schedule.total_steps - k, rest));
  }
  return schedule.min_lr + (schedule.peak_lr - schedule.min_lr) * gamma;
}

double WarmupCosine(const Schedule& schedule, int64_t k) {
  const int64_t warmup = std::max<int64_t>(2, schedule.warmup_steps);
  if (k < warmup) {
    const double share = DeepSpeedWarmup(schedule, k, warmup);
    const double start = schedule.warmup_min_ratio;
    return schedule.peak_lr * (start + (1 - start) * share);
  }
  const int64_t rest = std::max<int64_t>(1, schedule.total_steps - warmup);
  const double floor = schedule.cosine_min_ratio;
  return schedule.peak_lr *
         std::max(0.0, floor + (1 - floor) * HalfCosine(Ratio(k - warmup + 1, rest)));
}

int64_t CycleSteps(const Schedule& schedule) {
  return schedule.first_half.steps + schedule.second_half.steps;
}

// How far up the cycle is: 0 at its ends, 1 in between. `k` as above.
double CycleHeight(const Schedule& schedule, int64_t k) {
  const int64_t at = (k + 1) % CycleSteps(schedule);
  const bool rising = at <= schedule.first_half.steps;
  const CycleHalf& half = rising ? schedule.first_half : schedule.second_half;
  const int64_t climbed = rising ? at : CycleSteps(schedule) - at;
  if (half.stair_count == 0) return Ratio(climbed, half.steps);
  return Ratio(climbed * half.stair_count / half.steps, half.stair_count);
}

double DecayedBy(const Schedule& schedule, double rate, int64_t k) {
  if (schedule.step_size == 0) return 1;
  return 1 + rate * Ratio(k - CycleSteps(schedule) + 1, schedule.step_size);
}

double OneCycle(const Schedule& schedule, int64_t k) {
  if (k >= CycleSteps(schedule)) {
    return schedule.min_lr / DecayedBy(schedule, schedule.step_rate, k);
  }
  return schedule.min_lr +
         (schedule.peak_lr - schedule.min_lr) * CycleHeight(schedule, k);
}

double LrRangeTest(const Schedule& schedule, int64_t k) {
  const double interval = Ratio(k + 1, schedule.step_size);
  return schedule.min_lr *
         (1 +
          schedule.step_rate * (schedule.staircase ? std::floor(interval) : interval));
}

}  // namespace

const char* Name(ScheduleType type) { return kNames[static_cast<size_t>(type)]; }

std::optional<ScheduleType> ParseScheduleType(absl::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<ScheduleType>(i);
  }
  return std::nullopt;
}

bool IsDeepSpeed(ScheduleType type) { return type >= ScheduleType::kWarmupLr; }

double LearningRate(const Schedule& schedule, int64_t update) {
  STRATA_CHECK(update >= 1);
  if (!IsDeepSpeed(schedule.type)) {
    return schedule.peak_lr * TransformersShare(schedule, update - 1);
  }
  const int64_t k = update - 2;
  if (k < 0) {
    return schedule.type == ScheduleType::kWarmupCosineLr ? 0 : schedule.min_lr;
  }
  switch (schedule.type) {
    case ScheduleType::kWarmupCosineLr:
      return WarmupCosine(schedule, k);
    case ScheduleType::kOneCycle:
      return OneCycle(schedule, k);
    case ScheduleType::kLrRangeTest:
      return LrRangeTest(schedule, k);
    default:
      return WarmupDecay(schedule, k);
  }
}

std::optional<double> CycledBeta1(const Schedule& schedule, int64_t update) {
  STRATA_CHECK(update >= 1);
  if (schedule.type != ScheduleType::kOneCycle || !schedule.cycle_momentum) {
    return std::nullopt;
  }
  const int64_t k = update - 2;
  if (k < 0) return schedule.momentum_min;
  if (k >= CycleSteps(schedule)) {
    return schedule.momentum_max * DecayedBy(schedule, schedule.momentum_decay_rate, k);
  }
  return schedule.momentum_max -
         (schedule.momentum_max - schedule.momentum_min) * CycleHeight(schedule, k);
}

}  // namespace strata
