/// Law 1, and that deferred, lagged and immediate updates are what a barrier before the
/// update gives: the same bits, wherever everything rests and in whatever order it
/// goes.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/device/cpu_device.h"
#include "tests/support/memory_store.h"
#include "tests/support/random_plans.h"
#include "tests/support/serial_trainer.h"
#include "tests/support/toy_model.h"

namespace strata {
namespace {

constexpr int64_t kAmple = int64_t{1} << 40;
constexpr int kSteps = 50;

struct Scenario {
  ToyOptions toy;
  OptimizerSettings optimizer;
};

/// What a run of a trainer leaves behind.
struct Trace {
  std::vector<double> numbers;  // losses, norms, evaluations
  int clipped = 0, skipped = 0;
  std::map<std::string, std::vector<float>> weights, masters, moments1, moments2;
};

// Equal as bits: NaNs too.
void ExpectEqual(const Trace& a, const Trace& b) {
  ASSERT_EQ(a.numbers.size(), b.numbers.size());
  for (size_t i = 0; i < a.numbers.size(); ++i) {
    ASSERT_TRUE(a.numbers[i] == b.numbers[i] ||
                (std::isnan(a.numbers[i]) && std::isnan(b.numbers[i])))
        << "number " << i << ": " << a.numbers[i] << " and " << b.numbers[i];
  }
  EXPECT_EQ(a.clipped, b.clipped);
  EXPECT_EQ(a.skipped, b.skipped);
  for (const auto member :
       {&Trace::weights, &Trace::masters, &Trace::moments1, &Trace::moments2}) {
    ASSERT_EQ((a.*member).size(), (b.*member).size());
    for (const auto& [name, values] : a.*member) {
      const auto& other = (b.*member).at(name);
      ASSERT_EQ(values.size(), other.size()) << name;
      ASSERT_EQ(std::memcmp(values.data(), other.data(), values.size() * sizeof(float)),
                0)
          << name;
    }
  }
}

double LearningRateOf(int step) { return 1e-3 * std::min(1.0, (step + 1) / 10.0); }

/// Micro-batches of a step: fewer at times, some poisoned, one step with nothing to
/// train.
std::vector<Batch> BatchesOf(const ModelShape& model, const Scenario& scenario,
                             int step) {
  const int32_t count = step % 7 == 3 ? 1 : model.micro_batches;
  std::vector<Batch> batches;
  for (int32_t m = 0; m < count; ++m) {
    const bool poisoned =
        scenario.optimizer.max_grad_norm > 0 && step % 11 == 5 && m == 0;
    batches.push_back(ToyBatch(model, static_cast<uint32_t>(100 * step + m),
                               step == 20 ? 0.0
                               : m == 1   ? 0.3
                                          : 0.9,
                               poisoned));
  }
  return batches;
}

template <typename AnyTrainer, typename Collect>
Trace RunSteps(AnyTrainer& trainer, const ModelShape& model, const Scenario& scenario,
               const Collect& collect) {
  Trace trace;
  const Batch held_out = ToyBatch(model, 9999, 0.9, false);
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Batch> batches = BatchesOf(model, scenario, step);
    std::vector<MicroBatch> borrowed;
    for (const Batch& batch : batches) borrowed.push_back(Borrow(batch));
    const auto result = trainer.Step(borrowed, LearningRateOf(step));
    EXPECT_TRUE(result.ok()) << result.status();
    if (!result.ok()) return trace;
    trace.numbers.push_back(result->loss);
    trace.numbers.push_back(result->grad_norm);
    trace.clipped += result->clipped;
    trace.skipped += result->skipped;
    if (step % 9 == 8) {
      const auto loss = trainer.Evaluate(std::vector<MicroBatch>(2, Borrow(held_out)));
      EXPECT_TRUE(loss.ok()) << loss.status();
      if (loss.ok()) trace.numbers.push_back(*loss);
    }
  }
  collect(trace);
  return trace;
}

Trace RunSerial(const ModelShape& model, const Scenario& scenario) {
  SerialTrainer trainer(model, scenario.optimizer, 1);
  EXPECT_TRUE(trainer.LoadWeights(ToyWeights()).ok());
  return RunSteps(trainer, model, scenario, [&](Trace& trace) {
    trace.weights = trainer.Weights();
    trace.masters = trainer.State(StateKind::kMaster);
    trace.moments1 = trainer.State(StateKind::kMoment1);
    trace.moments2 = trainer.State(StateKind::kMoment2);
  });
}

TensorWriter Into(std::map<std::string, std::vector<float>>& tensors) {
  return [&tensors](const TensorSpec& tensor, int64_t first,
                    std::span<const float> values) {
    auto& target = tensors[tensor.name];
    EXPECT_EQ(static_cast<int64_t>(target.size()), first);
    target.insert(target.end(), values.begin(), values.end());
    return absl::OkStatus();
  };
}

Trace RunTiered(const Scenario& scenario, uint32_t seed) {
  std::mt19937 random(seed);
  const auto device =
      CreateCpuDevice({.device_bytes = kAmple, .pinned_host_bytes = kAmple});
  TrainerOptions options;
  options.optimizer = scenario.optimizer;
  options.budgets = {kAmple, kAmple, kAmple};
  options.partial_steps = {1};
  options.evaluates = true;
  options.device = options.host_device = device.get();
  options.make_store =
      [](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
    return std::make_unique<MemoryStore>(needs.capacity_bytes,
                                         MemoryStore::Mode::kImmediate);
  };
  ModelShape model = ToyModel(scenario.toy);
  const auto kernels = CreateKernels(DeviceKind::kCpu, {});
  options.overrides.decisions =
      RandomDecisions(random, TraceStep(model, (*kernels)->matmul_workspace_bytes(),
                                        scenario.optimizer.max_grad_norm > 0, 0, 1));
  auto trainer = Trainer::Create(std::move(model), options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (!trainer.ok()) return {};
  EXPECT_TRUE((*trainer)->LoadWeights(ToyWeights()).ok());
  return RunSteps(**trainer, (*trainer)->model(), scenario, [&](Trace& trace) {
    EXPECT_TRUE((*trainer)->ReadWeights(Into(trace.weights)).ok());
    EXPECT_TRUE((*trainer)->ReadState(StateKind::kMaster, Into(trace.masters)).ok());
    EXPECT_TRUE((*trainer)->ReadState(StateKind::kMoment1, Into(trace.moments1)).ok());
    EXPECT_TRUE((*trainer)->ReadState(StateKind::kMoment2, Into(trace.moments2)).ok());
  });
}

void ExpectExact(const Scenario& scenario, uint32_t first_seed) {
  const ModelShape model = ToyModel(scenario.toy);
  const Trace serial = RunSerial(model, scenario);
  if (scenario.optimizer.max_grad_norm > 0) {
    EXPECT_GT(serial.clipped, 5);
    EXPECT_LT(serial.clipped, kSteps - 10);
    EXPECT_GT(serial.skipped, 3);
  }
  for (uint32_t seed = first_seed; seed < first_seed + 8; ++seed) {
    SCOPED_TRACE(seed);
    ExpectEqual(serial, RunTiered(scenario, seed));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Exactness, ClippedStepsOfAnFp32Model) {
  ExpectExact({{}, {.weight_decay = 0.1, .max_grad_norm = 4.4}}, 100);
}

TEST(Exactness, ClippedStepsOfATiedBf16Model) {
  ExpectExact({{.dtype = DType::kBF16, .tied = true},
               {.weight_decay = 0.1, .max_grad_norm = 4.3}},
              200);
}

TEST(Exactness, ClippedStepsWithFrozenTensors) {
  ExpectExact({{.dtype = DType::kBF16, .frozen_blocks = 1}, {.max_grad_norm = 2.32}},
              300);
}

TEST(Exactness, ImmediateUpdatesOfATiedModelWithoutClipping) {
  ExpectExact({{.tied = true}, {.weight_decay = 0.1, .decoupled_decay = false}}, 400);
}

TEST(Exactness, ImmediateUpdatesOfABf16Model) {
  ExpectExact({{.dtype = DType::kBF16}, {.weight_decay = 0.01}}, 500);
}

}  // namespace
}  // namespace strata
