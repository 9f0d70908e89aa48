#include "model/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace strata {
namespace {

std::vector<double> Rates(const Schedule& schedule, int count) {
  std::vector<double> rates;
  for (int update = 1; update <= count; ++update) {
    rates.push_back(LearningRate(schedule, update));
  }
  return rates;
}

void ExpectRates(const Schedule& schedule, const std::vector<double>& expected) {
  const std::vector<double> rates = Rates(schedule, static_cast<int>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(rates[i], expected[i], 1e-9) << Name(schedule.type) << " " << i + 1;
  }
}

TEST(Schedule, DeepSpeedsWarmupGivesTheMinimumToTwoUpdates) {
  Schedule schedule = {
      .type = ScheduleType::kWarmupLr, .peak_lr = 1e-3, .warmup_steps = 4};
  ExpectRates(schedule, {0, 0, 0.0005, 0.00079248125, 0.001, 0.001});
  schedule.warmup_shape = WarmupShape::kLinear;
  ExpectRates(schedule, {0, 0, 0.00025, 0.0005, 0.00075, 0.001});
}

TEST(Schedule, DeepSpeedsWarmupOfNoneOrOneCountsAsTwo) {
  for (int64_t warmup : {0, 1, 2}) {
    for (WarmupShape shape : {WarmupShape::kLog, WarmupShape::kLinear}) {
      const Schedule schedule = {.type = ScheduleType::kWarmupLr,
                                 .peak_lr = 1e-3,
                                 .warmup_steps = warmup,
                                 .warmup_shape = shape};
      ExpectRates(schedule, {0, 0, shape == WarmupShape::kLog ? 1e-3 : 5e-4, 1e-3});
    }
  }
}

TEST(Schedule, DecayEndsAtTheMinimumAndNeverBelow) {
  Schedule schedule = {.type = ScheduleType::kWarmupDecayLr,
                       .peak_lr = 1e-3,
                       .warmup_steps = 2,
                       .total_steps = 6,
                       .warmup_shape = WarmupShape::kLinear};
  ExpectRates(schedule, {0, 0, 0.0005, 0.001, 0.00075, 0.0005, 0.00025, 0, 0, 0, 0, 0});
  schedule.total_steps = 3;
  schedule.warmup_steps = 10;
  for (double rate : Rates(schedule, 30)) {
    EXPECT_GE(rate, 0);
    EXPECT_LE(rate, 1e-3);
  }
}

TEST(Schedule, CosinesStayAtTheirFloor) {
  const Schedule transformers = {.type = ScheduleType::kCosine,
                                 .peak_lr = 1e-3,
                                 .warmup_steps = 2,
                                 .total_steps = 6};
  ExpectRates(transformers,
              {0, 0.0005, 0.001, 0.00085355339, 0.0005, 0.00014644661, 0, 0, 0, 0});
  const Schedule deep_speed = {.type = ScheduleType::kWarmupCosineLr,
                               .peak_lr = 1e-3,
                               .warmup_steps = 2,
                               .total_steps = 6};
  const std::vector<double> rates = Rates(deep_speed, 12);
  for (int update = 8; update <= 12; ++update) {
    EXPECT_NEAR(rates[update - 1], 1e-7, 1e-15) << update;
  }
}

TEST(Schedule, TransformersSchedulesGiveZeroToTheFirstUpdateOnly) {
  Schedule schedule = {.peak_lr = 1e-3, .warmup_steps = 2, .total_steps = 6};
  ExpectRates(schedule, {0, 0.0005, 0.001, 0.00075, 0.0005, 0.00025, 0, 0});
  schedule.type = ScheduleType::kConstantWithWarmup;
  ExpectRates(schedule, {0, 0.0005, 0.001, 0.001, 0.001, 0.001, 0.001});
  schedule.type = ScheduleType::kConstant;
  ExpectRates(schedule, {0.001, 0.001, 0.001});
  schedule.type = ScheduleType::kLinear;
  schedule.warmup_steps = 0;
  ExpectRates(schedule, {0.001, 0.001 * 5 / 6});
}

// DeepSpeed's own classes and transformers' linear one, run for 100 updates.
struct Recorded {
  Schedule schedule;
  std::vector<double> rates;
};
constexpr int kRecordedUpdates[] = {1, 2, 3, 6, 11, 12, 21, 51, 81, 82, 100};

std::vector<Recorded> RecordedSchedules() {
  const Schedule warmup = {.type = ScheduleType::kWarmupLr,
                           .peak_lr = 2e-5,
                           .warmup_steps = 10,
                           .total_steps = 100};
  Schedule linear = warmup, decay = warmup, cosine = warmup, slow_decay = warmup;
  linear.type = ScheduleType::kLinear;
  decay.type = ScheduleType::kWarmupDecayLr;
  cosine.type = ScheduleType::kWarmupCosineLr;
  slow_decay = {.type = ScheduleType::kWarmupDecayLr,
                .peak_lr = 3e-4,
                .min_lr = 3e-6,
                .warmup_steps = 20,
                .total_steps = 100,
                .warmup_shape = WarmupShape::kLinear};
  return {{warmup,
           {0, 0, 6.02059991e-06, 1.39794001e-05, 2e-05, 2e-05, 2e-05, 2e-05, 2e-05,
            2e-05, 2e-05}},
          {linear,
           {0, 2e-06, 4e-06, 1e-05, 2e-05, 1.97777778e-05, 1.77777778e-05,
            1.11111111e-05, 4.44444444e-06, 4.22222222e-06, 2.22222222e-07}},
          {decay,
           {0, 0, 6.02059991e-06, 1.39794001e-05, 2e-05, 2e-05, 1.8e-05, 1.13333333e-05,
            4.66666667e-06, 4.44444444e-06, 4.44444444e-07}},
          {cosine,
           {0, 0, 6.02059991e-06, 1.39794001e-05, 2e-05, 1.99939089e-05, 1.93969865e-05,
            1.17373081e-05, 2.34132161e-06, 2.12168047e-06, 8.09112064e-09}},
          {slow_decay,
           {3e-06, 3e-06, 1.785e-05, 6.24e-05, 0.00013665, 0.0001515, 0.00028515,
            0.0001923375, 8.09625e-05, 7.725e-05, 1.0425e-05}}};
}

TEST(Schedule, EqualsTheReferencesOverAHundredUpdates) {
  for (const Recorded& recorded : RecordedSchedules()) {
    for (size_t i = 0; i < recorded.rates.size(); ++i) {
      const double rate = LearningRate(recorded.schedule, kRecordedUpdates[i]);
      EXPECT_NEAR(rate, recorded.rates[i], 1e-8 * recorded.schedule.peak_lr)
          << Name(recorded.schedule.type) << " at " << kRecordedUpdates[i];
    }
  }
}

TEST(Schedule, OneCycleCyclesTheRateAndBeta1) {
  const Schedule schedule = {.type = ScheduleType::kOneCycle,
                             .peak_lr = 4e-4,
                             .min_lr = 1e-5,
                             .first_half = {.steps = 40},
                             .second_half = {.steps = 40},
                             .step_size = 20,
                             .step_rate = 0.5,
                             .momentum_min = 0.85,
                             .momentum_max = 0.95};
  const double rates[] = {1e-05,     1.975e-05,      2.95e-05,      5.875e-05,
                          0.0001075, 0.00011725,     0.000205,      0.0003025,
                          1e-05,     9.75609756e-06, 6.77966102e-06};
  const double betas[] = {0.85, 0.9475, 0.945, 0.9375, 0.925, 0.9225,
                          0.9,  0.875,  0.95,  0.95,   0.95};
  for (size_t i = 0; i < std::size(rates); ++i) {
    EXPECT_NEAR(LearningRate(schedule, kRecordedUpdates[i]), rates[i], 1e-13);
    EXPECT_NEAR(*CycledBeta1(schedule, kRecordedUpdates[i]), betas[i], 1e-13);
  }
  EXPECT_FALSE(CycledBeta1({.type = ScheduleType::kLinear}, 1).has_value());
}

TEST(Schedule, OneCycleClimbsStairs) {
  const Schedule schedule = {.type = ScheduleType::kOneCycle,
                             .peak_lr = 1,
                             .min_lr = 0,
                             .first_half = {.steps = 4, .stair_count = 2},
                             .second_half = {.steps = 2}};
  ExpectRates(schedule, {0, 0, 0.5, 0.5, 1, 0.5, 0, 0});
}

TEST(Schedule, RangeTestRisesFromItsMinimum) {
  Schedule schedule = {.type = ScheduleType::kLrRangeTest,
                       .min_lr = 1e-3,
                       .step_size = 2,
                       .step_rate = 1};
  ExpectRates(schedule, {0.001, 0.0015, 0.002, 0.0025});
  schedule.staircase = true;
  ExpectRates(schedule, {0.001, 0.001, 0.002, 0.002});
}

TEST(Schedule, NamesAreReadBack) {
  for (int i = 0; i < kScheduleTypeCount; ++i) {
    const auto type = static_cast<ScheduleType>(i);
    EXPECT_EQ(ParseScheduleType(Name(type)), type);
  }
  EXPECT_FALSE(ParseScheduleType("polynomial").has_value());
}

}  // namespace
}  // namespace strata
