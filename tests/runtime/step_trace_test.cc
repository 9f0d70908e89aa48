#include "runtime/plan/step_trace.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace strata {
namespace {

/// An embedding, two blocks of which the first is frozen, and a head tied to the
/// embedding.
StepTrace TiedTrace() {
  StepTrace trace;
  trace.tile_elements = 8;
  trace.input_bytes = 64;
  trace.micro_batches = 2;
  trace.layers = {{.name = "embedding", .trainable_elements = 32, .total_elements = 32},
                  {.name = "block.0", .trainable_elements = 0, .total_elements = 16},
                  {.name = "block.1", .trainable_elements = 16, .total_elements = 24},
                  {.name = "head",
                   .trainable_elements = 8,
                   .total_elements = 8,
                   .shared_layer = 0}};
  for (int layer = 0; layer < 3; ++layer) trace.layers[layer].output_bytes = 128;
  return trace;
}

TEST(StepTrace, TilesAreCountedOverTrainableElementsInLayerOrder) {
  const StepTrace trace = TiedTrace();
  EXPECT_EQ(trace.FirstTile(0), 0);
  EXPECT_EQ(trace.FirstTile(1), 4);
  EXPECT_EQ(trace.FirstTile(2), 4);
  EXPECT_EQ(trace.FirstTile(3), 6);
  EXPECT_EQ(trace.TotalTiles(), 7);
}

TEST(StepTrace, LowestTrainableIsTheLayerCountWhereAllIsFrozen) {
  StepTrace trace = TiedTrace();
  EXPECT_EQ(trace.LowestTrainable(), 0);
  trace.layers[0].trainable_elements = 0;
  EXPECT_EQ(trace.LowestTrainable(), 2);
  trace.layers[2].trainable_elements = trace.layers[3].trainable_elements = 0;
  EXPECT_EQ(trace.LowestTrainable(), 4);
}

TEST(StepTrace, SharerIsTheLaterOfTwoTiedLayers) {
  const StepTrace trace = TiedTrace();
  EXPECT_EQ(trace.Sharer(0), 3);
  EXPECT_EQ(trace.Sharer(3), -1);
}

TEST(ValidateTrace, AcceptsTiedAndFrozenLayers) {
  EXPECT_TRUE(ValidateTrace(TiedTrace()).ok());
}

TEST(ValidateTrace, RefusesEachFaultAndNamesTheLayer) {
  struct Case {
    const char* message;  // part of the error
    std::function<void(StepTrace&)> spoil;
  };
  const Case cases[] = {
      {"no layers", [](StepTrace& t) { t.layers.clear(); }},
      {"micro_batches is 0", [](StepTrace& t) { t.micro_batches = 0; }},
      {"input_bytes 0", [](StepTrace& t) { t.input_bytes = 0; }},
      {"tile_elements is 0", [](StepTrace& t) { t.tile_elements = 0; }},
      {"weight 0", [](StepTrace& t) { t.format.weight = 0; }},
      {"rank 1", [](StepTrace& t) { t.rank = 1; }},
      {"'block.1': trainable_elements 12",
       [](StepTrace& t) { t.layers[2].trainable_elements = 12; }},
      {"'block.1': trainable_elements 32 exceed",
       [](StepTrace& t) { t.layers[2].trainable_elements = 32; }},
      {"'block.0': output_bytes is 0",
       [](StepTrace& t) { t.layers[1].output_bytes = 0; }},
      {"'head': output_bytes is 8", [](StepTrace& t) { t.layers[3].output_bytes = 8; }},
      {"'head': saved_bytes is 8", [](StepTrace& t) { t.layers[3].saved_bytes = 8; }},
      {"'block.0': size -8", [](StepTrace& t) { t.layers[1].saved_bytes = -8; }},
      {"'block.0': nan FLOP",
       [](StepTrace& t) { t.layers[1].forward_flops = std::stod("nan"); }},
      {"'head': shared_layer is 3", [](StepTrace& t) { t.layers[3].shared_layer = 3; }},
      {"at most one may", [](StepTrace& t) { t.layers[2].shared_layer = 0; }},
  };
  for (const Case& c : cases) {
    StepTrace trace = TiedTrace();
    c.spoil(trace);
    const absl::Status status = ValidateTrace(trace);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_NE(status.message().find(c.message), absl::string_view::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace strata
