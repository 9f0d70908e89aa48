#include "tests/support/toy_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/device/cpu_device.h"
#include "tests/support/memory_store.h"
#include "tests/support/random_plans.h"

namespace strata {
namespace {

TensorWriter Into(Tensors& tensors) {
  return [&tensors](const TensorSpec& tensor, int64_t first,
                    std::span<const float> values) {
    auto& target = tensors[tensor.name];
    EXPECT_EQ(static_cast<int64_t>(target.size()), first);
    target.insert(target.end(), values.begin(), values.end());
    return absl::OkStatus();
  };
}

void FillOptions(const Scenario& scenario, TrainerOptions& options) {
  options.optimizer = scenario.optimizer;
  options.partial_steps = {1};
  options.evaluates = true;
  if (options.make_store) return;
  options.make_store =
      [](const StoreNeeds& needs) -> absl::StatusOr<std::unique_ptr<Store>> {
    return std::make_unique<MemoryStore>(needs.capacity_bytes,
                                         MemoryStore::Mode::kImmediate);
  };
}

}  // namespace

StepEvents LongRunEvents(int step) {
  return {.partial = step % 7 == 3,
          .poisoned = step % 11 == 5,
          .untrained = step == 20,
          .evaluated = step % 9 == 8};
}

StepEvents ShortRunEvents(int step) {
  return {.partial = step == 1,
          .poisoned = step == 3,
          .untrained = step == 5,
          .evaluated = step == 4};
}

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

std::vector<Batch> BatchesOf(const ModelShape& model, const Scenario& scenario,
                             int step) {
  const StepEvents events = scenario.events(step);
  const int32_t count = events.partial ? 1 : model.micro_batches;
  std::vector<Batch> batches;
  for (int32_t m = 0; m < count; ++m) {
    const double trained = events.untrained ? 0.0 : m == 1 ? 0.3 : 0.9;
    // Where updates do not wait, such a gradient ends the run.
    const bool poisoned = events.poisoned && UpdatesWait(scenario.optimizer) && m == 0;
    batches.push_back(
        ToyBatch(model, static_cast<uint32_t>(100 * step + m), trained, poisoned));
  }
  return batches;
}

ToyTrainer MakeToyTrainer(const Scenario& scenario, TrainerOptions options,
                          const TierBytes& memory) {
  ToyTrainer toy;
  toy.device = CreateCpuDevice(
      {.device_bytes = memory.device, .pinned_host_bytes = memory.host});
  FillOptions(scenario, options);
  options.device = options.host_device = toy.device.get();
  auto trainer = Trainer::Create(ToyModel(scenario.toy), std::move(options));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  if (trainer.ok()) toy.trainer = *std::move(trainer);
  return toy;
}

ToyTrainer MakeToyTrainer(const Scenario& scenario, uint32_t seed,
                          MakeStore make_store) {
  std::mt19937 random(seed);
  const auto kernels = CreateKernels(DeviceKind::kCpu, {});
  TrainerOptions options{.budgets = {kAmpleBytes, kAmpleBytes, kAmpleBytes}};
  options.overrides.decisions = RandomDecisions(
      random, TraceStep(ToyModel(scenario.toy), (*kernels)->matmul_workspace_bytes(),
                        UpdatesWait(scenario.optimizer), 0, 1));
  options.make_store = std::move(make_store);
  return MakeToyTrainer(scenario, std::move(options));
}

absl::StatusOr<PlannedStep> PlanToyTrainer(const Scenario& scenario,
                                           TrainerOptions options) {
  FillOptions(scenario, options);
  const auto kernels = CreateKernels(DeviceKind::kCpu, options.kernels);
  return PlanTraining(ToyModel(scenario.toy), options,
                      (*kernels)->matmul_workspace_bytes());
}

void Collect(Trainer& trainer, Trace& trace) {
  EXPECT_TRUE(trainer.ReadWeights(Into(trace.weights)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMaster, Into(trace.masters)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMoment1, Into(trace.moments1)).ok());
  EXPECT_TRUE(trainer.ReadState(StateKind::kMoment2, Into(trace.moments2)).ok());
}

}  // namespace strata
