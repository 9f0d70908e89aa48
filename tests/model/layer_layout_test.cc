#include <gtest/gtest.h>

#include "model/layer.h"

namespace strata {
namespace {

class TensorsOnly final : public Layer {
 public:
  explicit TensorsOnly(std::vector<TensorSpec> tensors)
      : tensors_(std::move(tensors)) {}
  std::string name() const override { return "tensors"; }
  std::vector<TensorSpec> tensors() const override { return tensors_; }
  LayerFootprint Footprint(const MicroBatchShape&) const override { return {}; }
  absl::Status Forward(const LayerContext&) const override { return absl::OkStatus(); }
  absl::Status Backward(const LayerContext&) const override { return absl::OkStatus(); }

 private:
  std::vector<TensorSpec> tensors_;
};

TEST(LayerLayout, TrainableTensorsComeFirstInTheirOwnOrder) {
  const LayerLayout layout = MakeLayout(TensorsOnly(
      {{"a", {3, 5}}, {"frozen", {200}, false}, {"b", {128}}, {"c", {kTileElements}}}));
  ASSERT_EQ(layout.tensors.size(), 4u);
  EXPECT_EQ(layout.tensors[0].spec.name, "a");
  EXPECT_EQ(layout.tensors[1].spec.name, "b");
  EXPECT_EQ(layout.tensors[2].spec.name, "c");
  EXPECT_EQ(layout.tensors[3].spec.name, "frozen");
  EXPECT_EQ(layout.Find("a").count, 15);
  EXPECT_EQ(layout.Find("a").first_element, 0);
  EXPECT_EQ(layout.Find("b").first_element, 128);
  EXPECT_EQ(layout.Find("c").first_element, 256);
  EXPECT_EQ(layout.trainable_elements, 2 * kTileElements);
  EXPECT_EQ(layout.Find("frozen").first_element, 2 * kTileElements);
  EXPECT_EQ(layout.total_elements, 3 * kTileElements);
  EXPECT_EQ(layout.parameter_count, 15 + 200 + 128 + kTileElements);
}

TEST(LayerLayout, NothingTrainableAndNothingAtAllHaveNoTrainablePart) {
  const LayerLayout frozen = MakeLayout(TensorsOnly({{"a", {3, 5}, false}}));
  EXPECT_EQ(frozen.trainable_elements, 0);
  EXPECT_EQ(frozen.total_elements, kTileElements);
  EXPECT_EQ(MakeLayout(TensorsOnly({})).total_elements, 0);
}

}  // namespace
}  // namespace strata
