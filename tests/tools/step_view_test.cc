/// What report.html draws: one step out of a timeline, and the bytes in use over it.

#include "tools/tiertrain/step_view.h"

#include <gtest/gtest.h>

#include "tests/support/plan_builder.h"
#include "tools/tiertrain/memory_curve.h"

namespace strata {
namespace {

/// A page comes from host memory (0), is changed (1) and goes back (2).
PlanSet ThereAndBack() {
  PlanBuilder builder({"layer"});
  builder.AddTransfer(OpCode::kCopy, Lane::kHostToDevice, HostPage(0), DevicePage(1),
                      {});
  builder.AddTask(Lane::kCompute, 0, DevicePage(1), {0});
  builder.AddTransfer(OpCode::kCopy, Lane::kDeviceToHost, DevicePage(1), HostPage(0),
                      {1});
  return builder.Build({}, 2);
}

// Runs of 10 s: in for 4, computed for 3, out for 3.
std::vector<TimelineSpan> Runs(int count) {
  std::vector<TimelineSpan> timeline;
  for (int run = 0; run < count; ++run) {
    const double start = 100 + 10 * run;
    timeline.push_back({0, 0, Lane::kHostToDevice, start, start + 4});
    timeline.push_back({1, 0, Lane::kCompute, start + 4, start + 7});
    timeline.push_back({2, 0, Lane::kDeviceToHost, start + 7, start + 10});
  }
  return timeline;
}

TEST(ViewLastStep, IsTheTimeBetweenTwoResults) {
  const auto view = ViewLastStep(ThereAndBack(), Runs(3));
  ASSERT_TRUE(view.has_value());
  EXPECT_DOUBLE_EQ(view->seconds, 10);
  ASSERT_EQ(view->spans.size(), 3u);
  EXPECT_EQ(view->spans[0].lane, Lane::kCompute);
  EXPECT_EQ(view->spans[0].kind, SpanKind::kForward);
  EXPECT_DOUBLE_EQ(view->spans[0].begin_seconds, 4);
  EXPECT_EQ(view->spans[1].kind, SpanKind::kWeights);
}

TEST(ViewLastStep, SaysWhomTheComputeLaneWaitedFor) {
  const auto view = ViewLastStep(ThereAndBack(), Runs(2));
  ASSERT_TRUE(view.has_value());
  ASSERT_EQ(view->waits.size(), 2u);
  EXPECT_EQ(view->waits[0].lane, Lane::kHostToDevice);
  EXPECT_DOUBLE_EQ(view->waits[0].end_seconds, 4);
  EXPECT_EQ(view->waits[1].lane, Lane::kDeviceToHost);  // of the results
  EXPECT_DOUBLE_EQ(view->waits[1].begin_seconds, 7);
}

TEST(ViewLastStep, PassesOverAStepWithoutResults) {
  std::vector<TimelineSpan> timeline = Runs(2);
  timeline.pop_back();
  const auto view = ViewLastStep(ThereAndBack(), timeline);
  ASSERT_TRUE(view.has_value());
  EXPECT_DOUBLE_EQ(view->seconds, 10);
  EXPECT_EQ(view->ops.size(), 3u);
  EXPECT_FALSE(ViewLastStep(ThereAndBack(), {}).has_value());
}

TEST(BytesInUse, LastFromTheWriteToTheLastRead) {
  const PlanSet set = ThereAndBack();
  const std::vector<OpSpan> spans = {{0, 2}, {4, 6}, {6, 8}};
  const std::vector<int64_t> device =
      BytesInUse(set.plans[0], TierKind::kDevice, kPage, spans, 10, 10);
  EXPECT_EQ(device,
            std::vector<int64_t>({2 * kPage, 2 * kPage, 2 * kPage, 2 * kPage, 2 * kPage,
                                  2 * kPage, 2 * kPage, 2 * kPage, 2 * kPage, kPage}));
}

TEST(BytesInUse, EndBetweenALastReadAndTheNextWrite) {
  PlanBuilder builder({"layer"});
  builder.AddTransfer(OpCode::kCopy, Lane::kHostToDevice, HostPage(0), DevicePage(0),
                      {});
  builder.AddTask(Lane::kCompute, 0, DevicePage(0), {0});
  builder.AddTransfer(OpCode::kCopy, Lane::kHostToDevice, HostPage(1), DevicePage(0),
                      {1});
  const PlanSet set = builder.Build({}, 2);
  const std::vector<OpSpan> spans = {{1, 2}, {2, 3}, {8, 9}};
  const std::vector<int64_t> device =
      BytesInUse(set.plans[0], TierKind::kDevice, 0, spans, 10, 5);
  EXPECT_EQ(device, std::vector<int64_t>({kPage, kPage, 0, 0, kPage}));
}

TEST(BytesInUse, WhatIsReadFirstCameFromBefore) {
  PlanBuilder builder({"layer"});
  builder.AddTask(Lane::kCompute, 0, DevicePage(3), {});
  const PlanSet set = builder.Build({}, 0);
  const std::vector<OpSpan> spans = {{5, 6}};
  const std::vector<int64_t> device =
      BytesInUse(set.plans[0], TierKind::kDevice, 0, spans, 8, 4);
  EXPECT_EQ(device, std::vector<int64_t>({kPage, kPage, kPage, kPage}));
}

}  // namespace
}  // namespace strata
