/// Learning-rate schedules, as pure functions of the number of the update, so that a
/// resumed run has the same ones without any state of its own.
///
/// Update N is the N-th time that weights change, from 1 on; skipped steps do not
/// count. The formulas, k being N - 1 in those of transformers and N - 2 in those of
/// DeepSpeed (which steps its schedules after the first update, so that updates 1 and 2
/// both get the warm-up's minimum), W the warm-up and T the total:
///   constant             peak
///   constant_with_warmup peak * min(1, k/W)
///   linear               peak * (k < W ? k/W : max(0, (T-k)/(T-W)))
///   cosine               peak * (k < W ? k/W : (1 + cos(pi * min(1, (k-W)/(T-W)))) /
///   2) WarmupLR             min + (peak-min) * g, g = ln(k+1)/ln(W) or k/W, then 1
///   WarmupDecayLR        the same with g = max(0, (T-k)/max(1, T-W)) after the warm-up
///   WarmupCosineLR       peak * r, r = m + (1-m) * g, after the warm-up
///                        r = c + (1-c) * (1 + cos(pi * min(1, (k-W+1)/(T-W)))) / 2
///   OneCycle             min to peak and back, then min / (1 + rate * steps / size)
///   LRRangeTest          min * (1 + rate * (k+1)/size)
/// In DeepSpeed's a warm-up of 0 or 1 counts as 2.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

namespace strata {

enum class ScheduleType : uint8_t {
  kConstant,
  kConstantWithWarmup,
  kLinear,
  kCosine,
  kWarmupLr,
  kWarmupDecayLr,
  kWarmupCosineLr,
  kOneCycle,
  kLrRangeTest,
};
inline constexpr int kScheduleTypeCount = 9;

/// "linear", "WarmupDecayLR": as --lr_scheduler_type and DeepSpeed's scheduler.type.
const char* Name(ScheduleType type);
std::optional<ScheduleType> ParseScheduleType(absl::string_view name);
/// One of those that DeepSpeed's `scheduler` section knows.
bool IsDeepSpeed(ScheduleType type);

enum class WarmupShape : uint8_t { kLog, kLinear };

/// A phase of OneCycle; a stair count of 0 is the continuous form.
struct CycleHalf {
  int64_t steps = 2000;
  int64_t stair_count = 0;

  bool operator==(const CycleHalf&) const = default;
};

/// Fields that a type does not use are left alone.
struct Schedule {
  ScheduleType type = ScheduleType::kLinear;
  double peak_lr = 5e-5;
  double min_lr = 0;
  int64_t warmup_steps = 0;
  int64_t total_steps = 0;
  WarmupShape warmup_shape = WarmupShape::kLog;
  double warmup_min_ratio = 0;        // WarmupCosineLR: m
  double cosine_min_ratio = 1e-4;     // WarmupCosineLR: c
  CycleHalf first_half, second_half;  // OneCycle
  int64_t step_size = 0;       // OneCycle: of the decay, 0 for none; LRRangeTest: size
  double step_rate = 0;        // OneCycle: of the decay; LRRangeTest: rate
  bool staircase = false;      // LRRangeTest
  bool cycle_momentum = true;  // OneCycle
  double momentum_min = 0.8;
  double momentum_max = 0.9;
  double momentum_decay_rate = 0;

  bool operator==(const Schedule&) const = default;
};

/// The rate that update `update` uses. REQUIRES: update >= 1.
double LearningRate(const Schedule& schedule, int64_t update);

/// beta1 of that update where the schedule cycles it (OneCycle), else nothing.
std::optional<double> CycledBeta1(const Schedule& schedule, int64_t update);

}  // namespace strata
